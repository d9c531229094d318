"""A document's text → other words and frequencies. One file is one enricher, found by its file name."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from submission.enrichment.base import Enricher
from submission.errors import UsageError, nearest, short

SHARED = {"base", "checkpoint", "read", "enriched", "crf", "marked"}


def names() -> list[str]:
    """The names of all enrichers, sorted."""
    return sorted(module.name for module in iter_modules(__path__) if module.name not in SHARED)


def find(name: str) -> type[Enricher[Any]]:
    """The enricher class in the file of that name. Raises UsageError: there is no such file."""
    if name not in names():
        raise UsageError(f"unknown enricher '{short(name)}'; {nearest(name, names())}")
    module = import_module(f"{__name__}.{name}")
    (enricher,) = (
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Enricher) and value.__module__ == module.__name__
    )
    return enricher
