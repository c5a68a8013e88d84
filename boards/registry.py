"""Loads what registers itself by import: payers of debts, workers of installed apps. Called once, at start."""

from __future__ import annotations

import importlib

from django.utils.module_loading import autodiscover_modules


def load() -> None:
    for module in ("boards.tasks", "boards.people", "boards.flows", "boards.telling"):
        importlib.import_module(module)
    autodiscover_modules("workers")


__all__ = ["load"]
