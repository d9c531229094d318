"""Explanation of a document's score as a sum of contributions."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch

from aragorn.inference.pair_scoring import TokenisedPairs, score_pairs
from aragorn.inference.ranker_checkpoint import RankerCheckpoint
from aragorn.models.enricher import TokenAnnotation
from aragorn.models.padding import PaddedTexts, pad
from aragorn.models.ranker import Contribution

# maximum difference between the sum of contributions and the score; relative if the score exceeds 1
TOLERANCE = 1e-4


@dataclass(frozen=True)
class ExplanationRow:
    """A line of an explanation: a value with a label and an optional note."""

    value: float
    label: str
    note: str = ""


def select_largest(rows: Iterable[ExplanationRow], limit: int) -> list[ExplanationRow]:
    """Return the rows with the largest absolute values, followed by one row with the sum of the
    remaining ones, if any."""
    sorted_rows = sorted(rows, key=lambda row: -abs(row.value))
    largest, remaining = sorted_rows[:limit], sorted_rows[limit:]
    return (
        [*largest, ExplanationRow(sum(row.value for row in remaining), f"{len(remaining)} more")]
        if remaining
        else largest
    )


class TextSpan(NamedTuple):
    """A contiguous span of a passage."""

    text: str  # with surrounding whitespace unless it is a component
    component: str  # "claim" or "premise"; "": no component


@dataclass(frozen=True)
class ScoreExplanation:
    """Explanation of a score by contributions, whose sum `activation` maps to the score."""

    score: float
    summary: str  # how the score follows from the contributions
    contributions: list[ExplanationRow]
    activation: Callable[[float], float] | None = None  # maps the sum to the score; None: identity
    # tokenised inputs of the model, by title
    model_inputs: dict[str, str] = field(default_factory=dict)
    # regrouped contributions, by title
    breakdowns: dict[str, list[ExplanationRow]] = field(default_factory=dict)
    # the document's text, split into argument components
    component_spans: list[TextSpan] = field(default_factory=list)
    # score change when a word piece is omitted
    occlusions: list[ExplanationRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        total = sum(row.value for row in self.contributions)
        expected_score = total if self.activation is None else self.activation(total)
        if not abs(expected_score - self.score) <= TOLERANCE * max(1, abs(self.score)):
            raise AssertionError(
                f"contributions yield the score {expected_score}; expected {self.score}"
            )


@torch.inference_mode()
def explain_network_score(
    checkpoint: RankerCheckpoint,
    query: list[int],
    document: list[int],
    field: str,
    device: torch.device,
) -> ScoreExplanation:
    """Explain a network's score for a query and the document field `field`, both as token ids."""
    ranker, tokeniser = checkpoint.move_network(device), checkpoint.tokeniser
    tokens = tokeniser.to_tokens(query), tokeniser.to_tokens(document)
    pair = [tensor.to(device) for text in (query, document) for tensor in pad([text])]
    explanation, score = ranker.explain(*pair), ranker(*pair).item()
    contributions, activation = explanation.contributions, explanation.activation
    by_feature: dict[str, float] = defaultdict(float)
    by_query_term: dict[int, float] = defaultdict(float)
    for contribution in contributions:
        by_feature[contribution.label] += contribution.value
        if contribution.query_position is not None:
            by_query_term[contribution.query_position] += contribution.value
    breakdowns = {}
    if len(by_feature) < len(contributions):
        breakdowns["by feature"] = [
            ExplanationRow(value, label) for label, value in by_feature.items()
        ]
        breakdowns["by query term"] = [
            ExplanationRow(value, tokens[0][position]) for position, value in by_query_term.items()
        ]
    summary = "sum of these contributions"
    if activation is not None:
        total = sum(contribution.value for contribution in contributions)
        summary = f"{activation.__name__} of {total:.6f}, the {summary}"
    return ScoreExplanation(
        score=score,
        summary=f"{summary} ({explanation.caveat})" if explanation.caveat else summary,
        contributions=[
            ExplanationRow(item.value, item.label, _get_source_tokens(item, *tokens))
            for item in contributions
        ],
        activation=None
        if activation is None
        else lambda value: activation(torch.tensor(value)).item(),
        model_inputs={
            "query as tokenised": " ".join(tokens[0]),
            f"{field} as tokenised": " ".join(tokens[1]),
        },
        breakdowns=breakdowns,
        occlusions=_occlude_tokens(checkpoint, query, document, score, device)
        if explanation.use_occlusion
        else [],
    )


def _occlude_tokens(
    checkpoint: RankerCheckpoint,
    query: list[int],
    premise: list[int],
    score: float,
    device: torch.device,
) -> list[ExplanationRow]:
    """Compute the change of the score if each premise token in turn is omitted."""
    variants = PaddedTexts.from_ids(
        [premise[:position] + premise[position + 1 :] for position in range(len(premise))]
    )
    pairs = TokenisedPairs(
        PaddedTexts.from_ids([query]),
        variants,
        np.zeros(len(premise), dtype=int),
        np.arange(len(premise)),
    )
    scores, tokens = (
        score_pairs(checkpoint.network, pairs, device),
        checkpoint.tokeniser.to_tokens(premise),
    )
    return [
        ExplanationRow(new_score - score, token, f"position {position}")
        for position, (new_score, token) in enumerate(zip(scores.tolist(), tokens, strict=True), 1)
    ]


def _get_source_tokens(
    contribution: Contribution, query_tokens: list[str], document_tokens: list[str]
) -> str:
    query = "" if contribution.query_position is None else query_tokens[contribution.query_position]
    positions = [
        position for position in contribution.document_positions if position < len(document_tokens)
    ]
    document = " ".join(document_tokens[position] for position in positions)
    return "  ".join(
        text
        for text in (" ← ".join(text for text in (query, document) if text), contribution.note)
        if text
    )


def split_by_component(
    text: str, tokens: Sequence[TokenAnnotation], get_component: Callable[[TokenAnnotation], str]
) -> list[TextSpan]:
    """Split a passage's text into spans by argument component; `get_component` returns "" for
    tokens outside components."""
    spans, end = list[TextSpan](), 0
    for component, group in groupby(tokens, key=get_component):
        if component:
            members = list(group)
            start, component_end = members[0].start, members[-1].end
            spans += [TextSpan(text[end:start], ""), TextSpan(text[start:component_end], component)]
            end = component_end
    return [span for span in [*spans, TextSpan(text[end:], "")] if span.text]
