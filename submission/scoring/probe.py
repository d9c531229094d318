"""The proof that a checkpoint still computes what it did when it was written: awkward texts, their ids, their scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


@torch.no_grad()
def probed(ranker: Ranker, tokeniser: Tokeniser) -> list[dict[str, Any]]:
    """The pairs, their ids, and the score that the ranker gives each of them alone, on the CPU."""
    device = next(ranker.parameters()).device
    ranker = ranker.cpu().eval()
    rows = []
    for query, premise in PAIRS:
        ids = tokeniser.query(query), tokeniser.premise(premise)
        score = ranker(*pad([ids[0]]), *pad([ids[1]])).item()
        rows.append({"query": query, "premise": premise, "query_ids": ids[0], "premise_ids": ids[1], "score": score})
    ranker.to(device)
    return rows


def refuse_other(file: Path, expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    """Compare what was written with what comes out now. Raises CheckpointError."""
    for old, new in zip(expected, found, strict=True):
        same_ids = {**old, "score": 0} == {**new, "score": 0}
        same_score = abs(old["score"] - new["score"]) <= TOLERANCE * max(1, abs(old["score"]))
        if not (same_ids and same_score):
            raise CheckpointError(
                f"{file}: for the query {old['query']!r} this code gives ids {new['query_ids']}, "
                f"{new['premise_ids']} and score {new['score']}, but the checkpoint was trained with {old['query_ids']}, "
                f"{old['premise_ids']} and {old['score']}; the text processing or the network has changed: train it again"
            )
