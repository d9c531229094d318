"""Why a document has its score, as a value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from submission.enrichment.marked import Piece
from submission.rankers.base import Part
from submission.scoring.batches import Padded, PaddedPairs, pad
from submission.scoring.checkpoint import Checkpoint
from submission.scoring.pairs import score_pairs

PRECISION = 1e-4  # relative above 1: what the parts' sum may differ from the score by


@dataclass(frozen=True)
class Row:
    """A figure, what it is of, and where it comes from."""

    value: float
    name: str
    note: str = ""


@dataclass(frozen=True)
class Explained:
    """A score and the parts that it is the sum of."""

    score: float
    how: str  # in words, what the parts are to the score
    parts: list[Row]
    output: Callable[[float], float] | None = None  # what makes the score of the sum; None: the sum is the score
    seen: dict[str, str] = field(default_factory=dict)  # texts as they were read, by what they are
    views: dict[str, list[Row]] = field(default_factory=dict)  # the parts added up in other ways, by how
    marked: list[Piece] = field(default_factory=list)  # the document's text, by parts of an argument
    omissions: list[Row] = field(default_factory=list)  # what the score changes by without a piece of the premise

    def __post_init__(self) -> None:
        """Raises AssertionError: the parts do not give the score."""
        total = sum(part.value for part in self.parts)
        given = total if self.output is None else self.output(total)
        if not abs(given - self.score) <= PRECISION * max(1, abs(self.score)):
            raise AssertionError(f"the parts give {given}, the score is {self.score}: the explanation is wrong")


@torch.inference_mode()
def by_network(checkpoint: Checkpoint, query: list[int], document: list[int], what: str, device: torch.device) -> Explained:
    """Why a network gives a query and a document, which is this or that of an argument, their score."""
    ranker, tokeniser, ids = checkpoint.on(device), checkpoint.tokeniser, (query, document)
    words = tokeniser.terms(ids[0]), tokeniser.terms(ids[1])
    pair = [tensor.to(device) for text in ids for tensor in pad([text])]
    found, score = ranker.explain(*pair), ranker(*pair).item()
    by_name: dict[str, float] = defaultdict(float)
    by_query: dict[int, float] = defaultdict(float)
    for part in found.parts:
        by_name[part.name] += part.value
        if part.query is not None:
            by_query[part.query] += part.value
    views = {}
    if len(by_name) < len(found.parts):
        views["by part"] = [Row(value, name) for name, value in by_name.items()]
        views["by query word"] = [Row(value, words[0][place]) for place, value in by_query.items()]
    output = found.output
    total = sum(part.value for part in found.parts)
    how = "the sum of these parts" if output is None else f"{output.__name__} of {total:.6f}, the sum of these parts"
    return Explained(
        score=score,
        how=f"{how} ({found.remark})" if found.remark else how,
        parts=[Row(part.value, part.name, _where(part, words)) for part in found.parts],
        output=None if output is None else lambda value: output(torch.tensor(value)).item(),
        seen={"query seen": " ".join(words[0]), f"{what} seen": " ".join(words[1])},
        views=views,
        omissions=_omissions(checkpoint, ids, words[1], score, device) if found.by_omission else [],
    )


def _omissions(
    checkpoint: Checkpoint, ids: tuple[list[int], list[int]], words: list[str], score: float, device: torch.device
) -> list[Row]:
    """Compute the change of the score when a piece of the premise is left out, for each piece."""
    query, premise = ids
    shorter = Padded.of([premise[:place] + premise[place + 1 :] for place in range(len(premise))])
    pairs = PaddedPairs(Padded.of([query]), shorter, np.zeros(len(premise), dtype=int), np.arange(len(premise)))
    scores = score_pairs(checkpoint.ranker, pairs, device)
    return [
        Row(new - score, word, f"place {place}")
        for place, (new, word) in enumerate(zip(scores.tolist(), words, strict=True), 1)
    ]


def _where(part: Part, words: tuple[list[str], list[str]]) -> str:
    """The words that a part comes from."""
    query = "" if part.query is None else words[0][part.query]
    document = " ".join(words[1][place] for place in part.document if place < len(words[1]))
    return "  ".join(text for text in (" ← ".join(text for text in (query, document) if text), part.note) if text)
