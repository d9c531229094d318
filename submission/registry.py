"""Load classes by module name from packages that define one class per module."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from submission.errors import UsageError, nearest, short

T = TypeVar("T")


def names_in(path: Iterable[str], shared: Collection[str] = ()) -> list[str]:
    """Return the sorted module names of a package, without the excluded ones."""
    return sorted(module.name for module in iter_modules(path) if module.name not in shared)


def find_class(package: str, names: Collection[str], name: str, base: type[T], kind: str) -> type[T]:
    """Return the subclass of `base` in the module `name`.

    Raises:
        UsageError: If `names` lacks it.
    """
    if name not in names:
        raise UsageError(f"unknown {kind} '{short(name)}'; {nearest(name, names)}")
    return class_in(package, name, base)


def class_in(package: str, name: str, base: type[T]) -> type[T]:
    """Return the only subclass of `base` that a module defines.

    Raises:
        ModuleNotFoundError: If the module does not exist.
        ValueError: If it defines none or several.
    """
    module = import_module(f"{package}.{name}")
    (cls,) = (
        member
        for member in vars(module).values()
        if inspect.isclass(member) and issubclass(member, base) and member.__module__ == module.__name__
    )
    return cls
