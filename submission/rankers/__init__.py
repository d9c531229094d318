"""The networks. One file is one ranker, found by its file name: there is no list to extend."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules

from submission.errors import UsageError, nearest, short
from submission.rankers.base import Ranker

SHARED = {"network", "base", "layers", "bert", "bert_config"}


def names() -> list[str]:
    """The names of all rankers, sorted."""
    return sorted(module.name for module in iter_modules(__path__) if module.name not in SHARED)


def find(name: str) -> type[Ranker]:
    """The ranker class in the file of that name.

    Raises:
        UsageError: there is no such file.
    """
    if name not in names():
        raise UsageError(f"unknown ranker '{short(name)}'; {nearest(name, names())}")
    module = import_module(f"{__name__}.{name}")
    (ranker,) = (
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Ranker) and value.__module__ == module.__name__
    )
    return ranker
