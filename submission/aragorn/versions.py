"""Describe the versions of results, of libraries and of this package, which are parts of keys.

A class or module whose results are kept has a number, `version` or VERSION. It is raised when its
results for the same input change, and nothing that was computed with another number is used again.
tests/contract/test_results.py fails if results change and the number does not.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from aragorn import __version__
from aragorn.paths import PACKAGE_DIR, STOP_WORDS_FILE


def describe_versions(*sources: ModuleType | type, libraries: Iterable[str] = ()) -> str:
    """List the versions of modules, of classes with their bases, and of libraries, for a key."""
    parts = []
    for source in sources:
        if isinstance(source, ModuleType):
            name = source.__name__.rpartition(".")[2]  # a move to another package changes no key
            parts.append(f"{name} {source.VERSION}")
        else:
            bases = (base for base in source.__mro__ if "version" in vars(base))
            parts += [f"{base.__qualname__} {vars(base)['version']}" for base in bases]
    parts += [f"{name} {get_library_version(name)}" for name in libraries]
    return ", ".join(dict.fromkeys(parts))


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
