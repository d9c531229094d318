"""Find classes by file names: a package of which each file has one class, so that there is no list to extend."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from submission.errors import UsageError, nearest, short

T = TypeVar("T")


def names_in(path: Iterable[str], shared: Collection[str] = ()) -> list[str]:
    """List the modules of a package, by its `__path__`, without those that its classes share, sorted."""
    return sorted(module.name for module in iter_modules(path) if module.name not in shared)


def find_class(package: str, names: Collection[str], name: str, base: type[T], kind: str) -> type[T]:
    """Return the class derived from `base` in the module `name`. Raises UsageError if `names` lacks it."""
    if name not in names:
        raise UsageError(f"unknown {kind} '{short(name)}'; {nearest(name, names)}")
    return class_in(package, name, base)


def class_in(package: str, name: str, base: type[T]) -> type[T]:
    """Return the one class derived from `base` that a module of a package defines.

    Raises:
        ModuleNotFoundError: there is no such module. ValueError: it defines no such class, or several.
    """
    module = import_module(f"{package}.{name}")
    (found,) = (
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, base) and value.__module__ == module.__name__
    )
    return found
