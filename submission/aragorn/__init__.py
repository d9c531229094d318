"""Rank documents for the topics of an input and write TREC runs; the only project package in the
container image."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aragorn.search.api import list_systems as list_systems
    from aragorn.search.api import load_system as load_system

__version__ = "2.0.0"
__all__ = ["__version__", "list_systems", "load_system"]


def __getattr__(name: str) -> Any:
    """Import the functions of `aragorn.search.api` on first use, since that imports pandas."""
    if name not in __all__:
        raise AttributeError(f"module 'aragorn' has no attribute '{name}'")
    return getattr(import_module("aragorn.search.api"), name)
