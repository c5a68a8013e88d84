"""Databases that live as long as a measurement: made beside the product's own, migrated, dropped whatever happens."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

PREFIX = "orchestra_bench_"


@dataclass(frozen=True)
class Place:
    """A database of a measurement: by name for Django, by address for other processes and plain SQL."""

    name: str
    address: str

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Django's connections of this process go here meanwhile."""
        before, direct = connection.settings_dict["NAME"], settings.DATABASE_DIRECT_URL
        _go_to(self.name, "")
        try:
            yield
        finally:
            _go_to(before, direct)

    def connect(self) -> psycopg.Connection[Any]:
        """A plain connection, as the references use; it commits by itself."""
        return psycopg.connect(self.address, autocommit=True)


@contextlib.contextmanager
def own_database(like: Place | None = None) -> Iterator[Place]:
    """Make and migrate a database on the product's server, and drop it at the end.

    `like` copies another one instead, which nobody may be connected to. Raises psycopg.Error where the user may not
    create databases.
    """
    name = f"{PREFIX}{os.getpid()}_{secrets.token_hex(3)}"
    server = _server()
    with psycopg.connect(server, autocommit=True) as admin:
        template = sql.Identifier(like.name if like else "template1")
        admin.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), template))
    try:
        place = Place(name, make_conninfo(server, dbname=name))
        if like is None:
            with place.used():
                call_command("migrate", verbosity=0, interactive=False)
        yield place
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def facts() -> dict[str, Any]:
    """What every result says of the server and the machine."""
    with psycopg.connect(_server()) as admin:
        row = admin.execute("show server_version").fetchone()
    assert row is not None
    return {"postgres": str(row[0]).split()[0], "host_cores": os.cpu_count() or 1}


def _server() -> str:
    """The product's server; past a pooler where DATABASE_DIRECT_URL says so."""
    wanted = connection.get_connection_params()
    named = {key: wanted[key] for key in ("host", "port", "user", "password", "dbname") if wanted.get(key)}
    if settings.DATABASE_DIRECT_URL:
        named |= conninfo_to_dict(settings.DATABASE_DIRECT_URL)
    return make_conninfo(**named)


def _go_to(name: str, direct: str) -> None:
    connections.close_all()
    connection.settings_dict["NAME"] = name
    settings.DATABASE_DIRECT_URL = direct
