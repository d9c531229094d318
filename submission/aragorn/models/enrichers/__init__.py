"""Enrichers, one network per module."""

from typing import Any

from aragorn.models.enricher import Enricher
from aragorn.registry import find_class


def get_enricher_class(name: str) -> type[Enricher[Any]]:
    """Return the class of the enricher with this name. Raises UsageError if there is none."""
    return find_class(__name__, name, Enricher, "enricher")  # type: ignore[type-abstract]
