"""Rankers, one network per module."""

from aragorn.models.network import Ranker
from aragorn.registry import find_class, list_module_names


def list_rankers() -> list[str]:
    """Return the sorted names of all rankers."""
    return list_module_names(__path__)


def get_ranker_class(name: str) -> type[Ranker]:
    """Return the class of the ranker with this name. Raises UsageError if there is none."""
    return find_class(__name__, name, Ranker, "ranker")  # type: ignore[type-abstract]
