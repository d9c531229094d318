"""Taggers: networks that label or weight the tokens of passages, one per module."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

from aragorn.models.network import Network, StoredTokeniser
from aragorn.registry import find_class


class TokenAnnotation(NamedTuple):
    """A token of a passage with a tagger's weight or label."""

    surface: str  # normalised as for lookup and indexing
    start: int  # character offset in the passage
    end: int
    weight: float
    label: str = ""  # tag; empty if the tagger only weights tokens


class PassageTokeniser(StoredTokeniser, Protocol):
    """Interface of tokenisers that split texts into passages, which have a text and a length."""

    @classmethod
    def load(cls, directory: Path, config: Any) -> Self:
        """Load the tokeniser of a tagger with this Config; raise OSError or ValueError."""

    def split(self, text: str) -> Sequence[Any]:
        """Split a raw text into passages, in order; a text without words has no passages."""


class Tagger(Network, ABC):
    """A network that labels or weights the tokens of a passage, whatever its batch."""

    tokeniser_class: ClassVar[type[PassageTokeniser]]
    output_name: ClassVar[str]  # name of the output in explanations
    # argument fields that are its input
    input_fields: ClassVar[Literal["premise", "conclusion premise"]] = "premise"
    # argument components that it labels; empty if it only weights tokens
    component_types: ClassVar[tuple[str, ...]] = ()
    # minimum of a batch's token limit, which depends on the device
    min_batch_tokens: ClassVar[int] = 0

    @abstractmethod
    def annotate(self, passages: Sequence[Any]) -> list[list[TokenAnnotation]]:
        """Return the annotations of each passage's tokens, in order, computed as one batch."""

    def get_component_type(self, token: TokenAnnotation) -> str:
        """Return the argument component that a token belongs to; "" if none."""
        return ""

    @abstractmethod
    def compute_word_frequencies(
        self, passages: Sequence[Sequence[TokenAnnotation]]
    ) -> Mapping[str, int]:
        """Compute each word's frequency, at least 1, from the annotated passages of a text."""


def get_tagger_class(name: str) -> type[Tagger]:
    """Return the class of the tagger with this name. Raises UsageError if there is none."""
    return find_class(__name__, name, Tagger, "tagger")  # type: ignore[type-abstract]
