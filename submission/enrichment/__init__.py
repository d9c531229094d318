"""A document's text → other words and frequencies. One file is one enricher, found by its file name."""

from __future__ import annotations

from typing import Any

from submission.enrichment.base import Enricher
from submission.errors import UsageError, nearest, short
from submission.registry import class_in, names_in

SHARED = {"base", "checkpoint", "read", "enriched", "crf", "marked"}


def names() -> list[str]:
    """List the names of all enrichers, sorted."""
    return names_in(__path__, SHARED)


def find(name: str) -> type[Enricher[Any]]:
    """Return the enricher class in the file of that name. Raises UsageError: there is no such file."""
    if name not in names():
        raise UsageError(f"unknown enricher '{short(name)}'; {nearest(name, names())}")
    return class_in(__name__, name, Enricher)  # type: ignore[type-abstract]
