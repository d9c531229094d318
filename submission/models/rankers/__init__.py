"""Rankers, one network per file, found by file name."""

from __future__ import annotations

from submission.models.ranker import Ranker
from submission.registry import find_class, module_names

SHARED = {"network", "base", "layers", "bert", "bert_config"}


def names() -> list[str]:
    """Return the sorted names of all rankers."""
    return module_names(__path__, SHARED)


def find(name: str) -> type[Ranker]:
    """Return the class in the file of that name. Raises UsageError if there is none."""
    return find_class(__name__, names(), name, Ranker, "ranker")  # type: ignore[type-abstract]
