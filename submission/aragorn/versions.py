"""Describe the versions of results, of libraries and of this package, which are parts of keys.

A class or module whose results are kept has a number, `version` or VERSION. It is raised when its
results for the same input change, and nothing that was computed with another number is used again.
Beside it, `computes_with` or COMPUTES_WITH names the modules and libraries that it computes with,
so that a key names one module and has the versions of all. tests/contract/test_results.py fails if
results change and the number does not, and tests/contract/test_keys.py if a name is missing.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from aragorn import __version__
from aragorn.paths import PACKAGE_DIR, STOP_WORDS_FILE

Source = ModuleType | type | str  # str: name of a module of this project, or of a distribution


def describe_versions(*sources: type | str) -> str:
    """List the versions of classes, modules and libraries, and of all they compute with."""
    return describe_sources(list_sources(*sources))


def describe_sources(sources: Iterable[Source]) -> str:
    """List the versions of modules, of classes with their bases, and of libraries."""
    parts = []
    for source in sources:
        if isinstance(source, ModuleType):
            name = source.__name__.rpartition(".")[2]  # a move to another package changes no key
            parts.append(f"{name} {source.VERSION}")
        elif isinstance(source, str):
            parts.append(f"{source} {get_library_version(source)}")
        else:
            bases = (base for base in source.__mro__ if "version" in vars(base))
            parts += [f"{base.__qualname__} {vars(base)['version']}" for base in bases]
    return ", ".join(dict.fromkeys(parts))


def list_sources(*sources: type | str) -> list[Source]:
    """Return classes, modules and names of libraries, and all they compute with, each once."""
    resolved: dict[Source, None] = {}

    def add(source: Source) -> None:
        if isinstance(source, str) and source.startswith("aragorn"):
            source = import_module(source)
        if source not in resolved:
            resolved[source] = None
            for name in _get_direct_sources(source):
                add(name)

    for source in sources:
        add(source)
    return list(resolved)


def _get_direct_sources(source: Source) -> Iterable[type | str]:
    if isinstance(source, ModuleType):
        return getattr(source, "COMPUTES_WITH", ())
    if isinstance(source, type):
        return (name for base in source.__mro__ for name in vars(base).get("computes_with", ()))
    return ()


@cache
def get_library_version(name: str) -> str:
    """Return the version of a distribution without its build (2.13.0+cpu → 2.13.0), or "none"."""
    try:
        return version(name).split("+")[0]
    except PackageNotFoundError:
        return "none"


@cache
def hash_package() -> str:
    """Return the hash of modules and stop words, equal for runs of a directory and all nodes."""
    state = hashlib.sha256(__version__.encode())
    for file in sorted([*PACKAGE_DIR.rglob("*.py"), STOP_WORDS_FILE]):
        state.update(f"\n{file.relative_to(PACKAGE_DIR).as_posix()}\n".encode())
        state.update(file.read_bytes())
    return state.hexdigest()
