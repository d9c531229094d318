"""Enrichers, one network per file, found by file name, and the enrichment of collections."""

from __future__ import annotations

from typing import Any

from submission.models.enricher import Enricher
from submission.registry import find_class, module_names

SHARED = {"base", "checkpoint", "enriched", "crf", "marked"}


def names() -> list[str]:
    """Return the sorted names of all enrichers."""
    return module_names(__path__, SHARED)


def find(name: str) -> type[Enricher[Any]]:
    """Return the class in the file of that name. Raises UsageError if there is none."""
    return find_class(__name__, names(), name, Enricher, "enricher")  # type: ignore[type-abstract]
