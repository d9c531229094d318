"""Find classes by module name in packages that define one class per module."""

import inspect
from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from aragorn.errors import UsageError, abbreviate, suggest

T = TypeVar("T")


def list_module_names(package_path: Iterable[str]) -> list[str]:
    """Return the sorted names of a package's modules by its `__path__`."""
    return sorted(module.name for module in iter_modules(package_path))


def find_class(package: str, name: str, base: type[T], kind: str) -> type[T]:
    """Return the subclass of `base` in a module; raise UsageError, with the noun `kind`,
    if there is none."""
    names = list_module_names(import_module(package).__path__)
    if name not in names:
        raise UsageError(f"unknown {kind} '{abbreviate(name)}'; {suggest(name, names)}")
    return load_class(package, name, base)


def load_class(package: str, module_name: str, base: type[T]) -> type[T]:
    """Return a module's only subclass of `base`; raise UsageError if it lacks methods."""
    module = import_module(f"{package}.{module_name}")
    classes = [
        member
        for member in vars(module).values()
        if inspect.isclass(member) and issubclass(member, base)
    ]
    (cls,) = (member for member in classes if member.__module__ == module.__name__)
    if abstract_methods := sorted(getattr(cls, "__abstractmethods__", ())):
        methods = ", ".join(abstract_methods)
        raise UsageError(
            f"{module.__file__}: {cls.__name__} lacks methods: {methods}; implement them"
        )
    return cls
