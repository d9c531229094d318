"""The interface of enrichers: passages in, labels or weights of their words out, from which the indexed words are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

from submission.rankers.network import Network


class Word(NamedTuple):
    """A word of a passage, and what an enricher says of it."""

    text: str  # as it is looked up and indexed
    start: int  # its place in the passage's text
    end: int
    weight: float
    label: str = ""  # of a tagger


class Passage(Protocol):
    """A part of a text as an enricher reads it."""

    @property
    def text(self) -> str:
        """Return the text of the passage."""

    def __len__(self) -> int:
        """Return the number of positions to compute."""


P = TypeVar("P", bound=Passage)
P_co = TypeVar("P_co", bound=Passage, covariant=True)


class Reader(Protocol[P_co]):
    """Turns a text into the passages that an enricher reads; its file is in the enricher's checkpoint."""

    file: ClassVar[str]

    @classmethod
    def load(cls, directory: Path, config: Any) -> Self:
        """From a directory that has its file, and the enricher's Config. Raises OSError, ValueError."""

    def fits(self, terms: int) -> bool:
        """Whether its ids are those of a network that has vectors for so many."""

    def dumps(self) -> bytes:
        """The content of its file."""

    def passages(self, text: str) -> Sequence[P_co]:
        """The passages of a text as written, in their order; of a text without a word, none."""


class Enricher(Network, ABC, Generic[P]):
    """A network that labels or weighs each word of a passage.

    What it says of a passage's words is a function of the passage: not of padding, of companions, or of the order.
    """

    Reader: ClassVar[type[Reader[Any]]]
    value: ClassVar[str]  # what it says, in a word or two
    fields: ClassVar[Literal["premise", "conclusion premise"]] = "premise"  # of an argument, that it is meant to read
    parts: ClassVar[tuple[str, ...]] = ()  # what of an argument it finds, each in a word; of one that weighs, nothing
    together: ClassVar[int] = 0  # minimum positions per batch

    @abstractmethod
    def words(self, passages: Sequence[P]) -> list[list[Word]]:
        """The words of each of some passages, computed together, in their order."""

    def part(self, word: Word) -> str:
        """Which of its parts a word is of; "" of none."""
        return ""

    @abstractmethod
    def frequencies(self, passages: Sequence[Sequence[Word]]) -> Mapping[str, int]:
        """The words that are indexed of a text, each as often as it counts, 1 or more, from those of its passages."""
