"""The proof that a checkpoint still computes what it did when it was written: awkward texts, their ids, their scores."""

from __future__ import annotations

from pathlib import Path

import msgspec

from submission.errors import CheckpointError, short
from submission.rankers.base import Ranker
from submission.scoring.batches import pad
from submission.scoring.stored import OTHER_TEXTS
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
UNIFIED_PAIRS = (  # decomposed letters, full width, a soft hyphen, a zero-width space
    ("Is cafe\u0301 culture \uff5a\uff4f\uff4f\uff53?", "Teach\u00aders of E\u0301coles, zo\u200bos \uff01"),
)


class Probed(msgspec.Struct):
    """A pair, its ids, and its score."""

    query: str
    premise: str
    query_ids: list[int]
    premise_ids: list[int]
    score: float

    def refuse_other(self, file: Path, found: Probed) -> None:
        """Compare what was written with what comes out now. Raises CheckpointError."""
        if (self.query, self.premise) != (found.query, found.premise):
            raise CheckpointError(f"{file}: {OTHER_TEXTS}")
        same_ids = (self.query_ids, self.premise_ids) == (found.query_ids, found.premise_ids)
        if not (same_ids and abs(self.score - found.score) <= TOLERANCE * max(1, abs(self.score))):
            raise CheckpointError(
                f"{file}: for the query '{short(self.query)}' this code gives {found.told()}, but the checkpoint was trained "
                f"with {self.told()}; the text processing or the network has changed: train it again"
            )

    def told(self) -> str:
        """Return its ids, the first of many, and its score, for people."""
        query, premise = (short(", ".join(map(str, ids))) for ids in (self.query_ids, self.premise_ids))
        return f"the ids [{query}], [{premise}] and the score {self.score:.6g}"


def probed(ranker: Ranker, tokeniser: Tokeniser) -> list[Probed]:
    """The pairs, their ids, and the score that the ranker gives each of them alone."""
    rows = []
    for query, premise in PAIRS if tokeniser.rule == 1 else PAIRS + UNIFIED_PAIRS:
        ids = tokeniser.query(query), tokeniser.premise(premise)
        rows.append(Probed(query, premise, *ids, ranker(*pad([ids[0]]), *pad([ids[1]])).item()))
    return rows
