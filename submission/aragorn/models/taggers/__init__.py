"""Taggers, one network per module."""

from aragorn.models.tagger import Tagger
from aragorn.registry import find_class


def get_tagger_class(name: str) -> type[Tagger]:
    """Return the class of the tagger with this name. Raises UsageError if there is none."""
    return find_class(__name__, name, Tagger, "tagger")  # type: ignore[type-abstract]
