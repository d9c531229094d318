"""Interface of enrichers, networks that label or weigh the tokens of passages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

from submission.models.network import Network, StoredTokeniser


class TokenAnnotation(NamedTuple):
    """A token of a passage with an enricher's weight or label."""

    surface: str  # as looked up and indexed
    start: int  # character offset in the passage
    end: int
    weight: float
    label: str = ""  # tag; empty for weighting enrichers


class Passage(Protocol):
    """A span of text that an enricher reads at once."""

    @property
    def text(self) -> str: ...

    def __len__(self) -> int:
        """Return the number of tokens."""


P = TypeVar("P", bound=Passage)
P_co = TypeVar("P_co", bound=Passage, covariant=True)


class PassageTokeniser(StoredTokeniser, Protocol[P_co]):
    """A tokeniser that splits texts into passages."""

    @classmethod
    def load(cls, directory: Path, config: Any) -> Self:
        """Load from a directory with its file and the enricher's Config. Raises OSError, ValueError."""

    def split(self, text: str) -> Sequence[P_co]:
        """Split a raw text into passages, in order; a text without words has none."""


class Enricher(Network, ABC, Generic[P]):
    """A network that labels or weighs each token of a passage.

    The output is independent of padding, batch composition and order.
    """

    tokeniser_class: ClassVar[type[PassageTokeniser[Any]]]
    output_name: ClassVar[str]  # what the output is called
    input_fields: ClassVar[Literal["premise", "conclusion premise"]] = "premise"  # argument fields that it reads
    component_types: ClassVar[tuple[str, ...]] = ()  # argument components that it labels; empty for weighting enrichers
    min_batch_tokens: ClassVar[int] = 0  # minimum tokens per batch

    @abstractmethod
    def annotate(self, passages: Sequence[P]) -> list[list[TokenAnnotation]]:
        """Annotate the tokens of a batch of passages, in order."""

    def get_component_type(self, word: TokenAnnotation) -> str:
        """Return the component that a token belongs to, or ""."""
        return ""

    @abstractmethod
    def compute_term_frequencies(self, passages: Sequence[Sequence[TokenAnnotation]]) -> Mapping[str, int]:
        """Compute a text's index terms and frequencies (at least 1) from its annotated passages."""
