"""The networks. One file is one ranker, found by its file name: there is no list to extend."""

from __future__ import annotations

from submission.errors import UsageError, nearest, short
from submission.rankers.base import Ranker
from submission.registry import class_in, names_in

SHARED = {"network", "base", "layers", "bert", "bert_config"}


def names() -> list[str]:
    """List the names of all rankers, sorted."""
    return names_in(__path__, SHARED)


def find(name: str) -> type[Ranker]:
    """Return the ranker class in the file of that name. Raises UsageError: there is no such file."""
    if name not in names():
        raise UsageError(f"unknown ranker '{short(name)}'; {nearest(name, names())}")
    return class_in(__name__, name, Ranker)  # type: ignore[type-abstract]
