"""Explanation of a document's score as a sum of contributions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch

from submission.inference.batching import PaddedTexts, TokenisedPairs
from submission.inference.pair_scoring import score_pairs
from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.models.enricher import TokenAnnotation
from submission.models.padding import pad
from submission.models.ranker import Contribution

TOLERANCE = 1e-4  # maximum difference between sum and score, relative above 1


@dataclass(frozen=True)
class ExplanationRow:
    """A value with a label and an optional note."""

    value: float
    label: str
    note: str = ""


@dataclass(frozen=True)
class ScoreExplanation:
    """A score and the contributions that sum to it."""

    score: float
    summary: str  # how the contributions give the score
    contributions: list[ExplanationRow]
    activation: Callable[[float], float] | None = None  # maps the sum to the score; None: identity
    model_inputs: dict[str, str] = field(default_factory=dict)  # texts as the model read them, by field
    breakdowns: dict[str, list[ExplanationRow]] = field(default_factory=dict)  # contributions aggregated differently, by title
    component_spans: list[TextSpan] = field(default_factory=list)  # the document's text, split into argument components
    occlusions: list[ExplanationRow] = field(default_factory=list)  # score change if one word piece of the premise is left out

    def __post_init__(self) -> None:
        """Raise AssertionError if the contributions do not give the score."""
        total = sum(part.value for part in self.contributions)
        expected = total if self.activation is None else self.activation(total)
        if not abs(expected - self.score) <= TOLERANCE * max(1, abs(self.score)):
            raise AssertionError(f"contributions give {expected}, but the score is {self.score}")


@torch.inference_mode()
def explain_network_score(
    checkpoint: RankerCheckpoint, query: list[int], document: list[int], field: str, device: torch.device
) -> ScoreExplanation:
    """Explain the score that a network gives a query and a document field."""
    ranker, tokeniser, ids = checkpoint.get_network(device), checkpoint.tokeniser, (query, document)
    tokens = tokeniser.to_tokens(ids[0]), tokeniser.to_tokens(ids[1])
    pair = [tensor.to(device) for text in ids for tensor in pad([text])]
    explanation, score = ranker.explain(*pair), ranker(*pair).item()
    by_feature: dict[str, float] = defaultdict(float)
    by_query_term: dict[int, float] = defaultdict(float)
    for part in explanation.contributions:
        by_feature[part.label] += part.value
        if part.query_position is not None:
            by_query_term[part.query_position] += part.value
    views = {}
    if len(by_feature) < len(explanation.contributions):
        views["by feature"] = [ExplanationRow(value, name) for name, value in by_feature.items()]
        views["by query term"] = [ExplanationRow(value, tokens[0][position]) for position, value in by_query_term.items()]
    output = explanation.activation
    total = sum(part.value for part in explanation.contributions)
    summary = "sum of these contributions"
    if output is not None:
        summary = f"{output.__name__} of {total:.6f}, the {summary}"
    return ScoreExplanation(
        score=score,
        summary=f"{summary} ({explanation.caveat})" if explanation.caveat else summary,
        contributions=[
            ExplanationRow(part.value, part.label, _get_source_tokens(part, tokens)) for part in explanation.contributions
        ],
        activation=None if output is None else lambda value: output(torch.tensor(value)).item(),
        model_inputs={"query as tokenised": " ".join(tokens[0]), f"{field} as tokenised": " ".join(tokens[1])},
        breakdowns=views,
        occlusions=_occlude_tokens(checkpoint, ids, tokens[1], score, device) if explanation.use_occlusion else [],
    )


def _occlude_tokens(
    checkpoint: RankerCheckpoint, ids: tuple[list[int], list[int]], words: list[str], score: float, device: torch.device
) -> list[ExplanationRow]:
    """Compute the score change for each premise token that is left out."""
    query, premise = ids
    occluded = PaddedTexts.from_ids([premise[:position] + premise[position + 1 :] for position in range(len(premise))])
    pairs = TokenisedPairs(PaddedTexts.from_ids([query]), occluded, np.zeros(len(premise), dtype=int), np.arange(len(premise)))
    scores = score_pairs(checkpoint.network, pairs, device)
    return [
        ExplanationRow(new_score - score, token, f"position {position}")
        for position, (new_score, token) in enumerate(zip(scores.tolist(), words, strict=True), 1)
    ]


def _get_source_tokens(part: Contribution, words: tuple[list[str], list[str]]) -> str:
    """Return the tokens that a contribution comes from."""
    query = "" if part.query_position is None else words[0][part.query_position]
    document = " ".join(words[1][position] for position in part.document_positions if position < len(words[1]))
    return "  ".join(text for text in (" ← ".join(text for text in (query, document) if text), part.note) if text)


class TextSpan(NamedTuple):
    """A contiguous span of a passage."""

    text: str  # includes surrounding whitespace if it is no component
    component: str  # claim or premise; "" if none


def split_by_component(text: str, words: Sequence[TokenAnnotation], part: Callable[[TokenAnnotation], str]) -> list[TextSpan]:
    """Split a passage's text into spans by argument component."""
    spans: list[TextSpan] = []
    end = 0
    for component, group in groupby(words, key=part):
        if component:
            tokens = list(group)
            spans += [TextSpan(text[end : tokens[0].start], ""), TextSpan(text[tokens[0].start : tokens[-1].end], component)]
            end = tokens[-1].end
    return [span for span in [*spans, TextSpan(text[end:], "")] if span.text]
