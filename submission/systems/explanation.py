"""Explanation of a document's score as a sum of contributions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch

from submission.inference.batching import Padded, PaddedPairs, pad
from submission.inference.pair_scoring import score_pairs
from submission.inference.ranker_checkpoint import Checkpoint
from submission.models.enricher import Word
from submission.models.ranker import Part

PRECISION = 1e-4  # maximum difference between sum and score, relative above 1


@dataclass(frozen=True)
class Row:
    """A value with a label and an optional note."""

    value: float
    name: str
    note: str = ""


@dataclass(frozen=True)
class Explained:
    """A score and the contributions that sum to it."""

    score: float
    how: str  # how the contributions give the score
    parts: list[Row]
    output: Callable[[float], float] | None = None  # maps the sum to the score; None: identity
    seen: dict[str, str] = field(default_factory=dict)  # texts as the model read them, by field
    views: dict[str, list[Row]] = field(default_factory=dict)  # contributions aggregated differently, by title
    marked: list[Piece] = field(default_factory=list)  # the document's text, split into argument components
    omissions: list[Row] = field(default_factory=list)  # score change if one word piece of the premise is left out

    def __post_init__(self) -> None:
        """Raise AssertionError if the contributions do not give the score."""
        total = sum(part.value for part in self.parts)
        expected = total if self.output is None else self.output(total)
        if not abs(expected - self.score) <= PRECISION * max(1, abs(self.score)):
            raise AssertionError(f"contributions give {expected}, but the score is {self.score}")


@torch.inference_mode()
def by_network(checkpoint: Checkpoint, query: list[int], document: list[int], what: str, device: torch.device) -> Explained:
    """Explain the score that a network gives a query and a document field."""
    ranker, tokeniser, ids = checkpoint.on(device), checkpoint.tokeniser, (query, document)
    tokens = tokeniser.terms(ids[0]), tokeniser.terms(ids[1])
    pair = [tensor.to(device) for text in ids for tensor in pad([text])]
    explanation, score = ranker.explain(*pair), ranker(*pair).item()
    by_feature: dict[str, float] = defaultdict(float)
    by_query_term: dict[int, float] = defaultdict(float)
    for part in explanation.parts:
        by_feature[part.name] += part.value
        if part.query is not None:
            by_query_term[part.query] += part.value
    views = {}
    if len(by_feature) < len(explanation.parts):
        views["by feature"] = [Row(value, name) for name, value in by_feature.items()]
        views["by query term"] = [Row(value, tokens[0][position]) for position, value in by_query_term.items()]
    output = explanation.output
    total = sum(part.value for part in explanation.parts)
    summary = "sum of these contributions"
    if output is not None:
        summary = f"{output.__name__} of {total:.6f}, the {summary}"
    return Explained(
        score=score,
        how=f"{summary} ({explanation.remark})" if explanation.remark else summary,
        parts=[Row(part.value, part.name, _where(part, tokens)) for part in explanation.parts],
        output=None if output is None else lambda value: output(torch.tensor(value)).item(),
        seen={"query as tokenised": " ".join(tokens[0]), f"{what} as tokenised": " ".join(tokens[1])},
        views=views,
        omissions=_omissions(checkpoint, ids, tokens[1], score, device) if explanation.by_omission else [],
    )


def _omissions(
    checkpoint: Checkpoint, ids: tuple[list[int], list[int]], words: list[str], score: float, device: torch.device
) -> list[Row]:
    """Compute the score change for each premise token that is left out."""
    query, premise = ids
    occluded = Padded.of([premise[:position] + premise[position + 1 :] for position in range(len(premise))])
    pairs = PaddedPairs(Padded.of([query]), occluded, np.zeros(len(premise), dtype=int), np.arange(len(premise)))
    scores = score_pairs(checkpoint.ranker, pairs, device)
    return [
        Row(new_score - score, token, f"position {position}")
        for position, (new_score, token) in enumerate(zip(scores.tolist(), words, strict=True), 1)
    ]


def _where(part: Part, words: tuple[list[str], list[str]]) -> str:
    """Return the tokens that a contribution comes from."""
    query = "" if part.query is None else words[0][part.query]
    document = " ".join(words[1][position] for position in part.document if position < len(words[1]))
    return "  ".join(text for text in (" ← ".join(text for text in (query, document) if text), part.note) if text)


class Piece(NamedTuple):
    """A contiguous span of a passage."""

    text: str  # includes surrounding whitespace if it is no component
    part: str  # claim or premise; "" if none


def pieces(text: str, words: Sequence[Word], part: Callable[[Word], str]) -> list[Piece]:
    """Split a passage's text into spans by argument component."""
    spans: list[Piece] = []
    end = 0
    for component, group in groupby(words, key=part):
        if component:
            tokens = list(group)
            spans += [Piece(text[end : tokens[0].start], ""), Piece(text[tokens[0].start : tokens[-1].end], component)]
            end = tokens[-1].end
    return [span for span in [*spans, Piece(text[end:], "")] if span.text]
