"""Wiring only: settings, addresses, the server entry, the embedded PostgreSQL. No domain words live here."""
