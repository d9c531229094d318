"""The proof that a checkpoint still computes what it did when it was written: awkward texts, their ids, their scores."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch

from submission.errors import CheckpointError
from submission.rankers.base import Ranker
from submission.scoring.batches import pad
from submission.text.tokenisers import Tokeniser

TOLERANCE = 1e-4  # of scores, relative above 1; machines differ by less

PAIRS = (
    ("Should teachers get tenure?", "Teachers, who work hard, should get tenure: it protects them."),
    ("To be, or not to be?", "To be or not to be: that is the question!!! that that is the question"),
    (
        "Don't ban women’s 9/11 memorials",
        "The women's memorial cost $1,000,000 in 2011; see http://example.org/a?b=1 for it.",
    ),
    ("zzyzx qwrtp", "brzgl frmpf"),
    ("", "an argument without a question"),
    ("abortion", ""),
    (
        "École 東京 😀 naïve",
        "L’école de 東京 est ouverte 😀😀 — naïve… 12345678901234567890123456789012345678901234567890",
    ),
    ("long " * 50, "gun control saves lives and guns " * 100),
)


class Probed(msgspec.Struct):
    """A pair, its ids, and its score."""

    query: str
    premise: str
    query_ids: list[int]
    premise_ids: list[int]
    score: float


@torch.no_grad()
def probed(ranker: Ranker, tokeniser: Tokeniser) -> list[Probed]:
    """The pairs, their ids, and the score that the ranker gives each of them alone, on the CPU."""
    device = next(ranker.parameters()).device
    ranker = ranker.cpu().eval()
    rows = []
    for query, premise in PAIRS:
        ids = tokeniser.query(query), tokeniser.premise(premise)
        score = ranker(*pad([ids[0]]), *pad([ids[1]])).item()
        rows.append(Probed(query, premise, *ids, score))
    ranker.to(device)
    return rows


def refuse_other(file: Path, expected: list[Probed], found: list[Probed]) -> None:
    """Compare what was written with what comes out now. Raises CheckpointError."""
    if [(row.query, row.premise) for row in expected] != list(PAIRS):
        raise CheckpointError(f"{file}: holds other texts than this version of the code probes; make the checkpoint again")
    for old, new in zip(expected, found, strict=True):
        same_ids = (old.query_ids, old.premise_ids) == (new.query_ids, new.premise_ids)
        if not (same_ids and abs(old.score - new.score) <= TOLERANCE * max(1, abs(old.score))):
            raise CheckpointError(
                f"{file}: for the query {old.query!r} this code gives ids {new.query_ids}, {new.premise_ids} and score "
                f"{new.score}, but the checkpoint was trained with {old.query_ids}, {old.premise_ids} and {old.score}; "
                "the text processing or the network has changed: train it again"
            )
