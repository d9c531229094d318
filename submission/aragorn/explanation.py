"""Explanations of scores as sums of contributions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

# maximum difference between the sum of contributions and the score; relative if the score exceeds 1
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Row:
    """A value with a label and an optional note, e.g. a contribution to a score.

    A network's contribution has the query and document positions (strongest first) of its origin.
    """

    value: float
    label: str
    note: str = ""
    query_position: int | None = None
    document_positions: tuple[int, ...] = ()


class Highlight(NamedTuple):
    """Character span with a label: claim, premise, or a weight level (weight-1 to weight-5)."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class Explanation:
    """Explanation of a score by contributions, whose sum `activation` maps to the score.

    Raises AssertionError if they do not yield the score.
    """

    score: float
    contributions: list[Row]
    formula: str = "sum of these contributions"
    activation: Callable[[float], float] | None = None  # maps the sum to the score; None: identity
    caveat: str = ""  # limitations of the contributions
    model_inputs: dict[str, str] = field(default_factory=dict)  # tokenised, by title
    breakdowns: dict[str, list[Row]] = field(default_factory=dict)  # regrouped, by title
    text: str = ""  # of the document, if its argument components are known
    components: list[Highlight] = field(default_factory=list)  # of the text
    occlusions: list[Row] = field(default_factory=list)  # score change when a subword is omitted

    def __post_init__(self) -> None:
        total = self.total
        expected_score = total if self.activation is None else self.activation(total)
        if not abs(expected_score - self.score) <= TOLERANCE * max(1, abs(self.score)):
            raise AssertionError(
                f"contributions yield the score {expected_score}; expected {self.score}"
            )

    @property
    def total(self) -> float:
        return sum(row.value for row in self.contributions)

    @property
    def summary(self) -> str:
        """How the score follows from the contributions, with the caveat."""
        summary = self.formula
        if self.activation is not None:
            summary = f"{self.activation.__name__} of {self.total:.6f}, the {summary}"
        return f"{summary} ({self.caveat})" if self.caveat else summary


def select_largest(rows: Iterable[Row], limit: int) -> list[Row]:
    """Return the rows with the largest absolute values, and one with the sum of the others."""
    sorted_rows = sorted(rows, key=lambda row: -abs(row.value))
    largest = sorted_rows[:limit]
    remaining = sorted_rows[limit:]
    if not remaining:
        return largest
    return [*largest, Row(sum(row.value for row in remaining), f"{len(remaining)} more")]
