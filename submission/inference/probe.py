"""Probe of ranker checkpoints: edge-case texts with the token ids and scores that a loaded checkpoint must reproduce."""

from __future__ import annotations

from pathlib import Path

import msgspec

from submission.errors import CheckpointError, abbreviate
from submission.inference.checkpoint_io import PROBE_TEXTS_CHANGED
from submission.models.padding import pad
from submission.models.ranker import Ranker
from submission.text.tokenisers import Tokeniser

TOLERANCE = 1e-4  # absolute for scores up to 1, relative above; differences between machines are smaller

PROBE_PAIRS = (
    ("Should teachers get tenure?", "Teachers, who work hard, should get tenure: it protects them."),
    ("To be, or not to be?", "To be or not to be: that is the question!!! that that is the question"),
    ("Don't ban women’s 9/11 memorials", "The women's memorial cost $1,000,000 in 2011; see http://example.org/a?b=1 for it."),
    ("zzyzx qwrtp", "brzgl frmpf"),
    ("", "an argument without a question"),
    ("abortion", ""),
    ("École 東京 😀 naïve", "L’école de 東京 est ouverte 😀😀 — naïve… 12345678901234567890123456789012345678901234567890"),
    ("long " * 50, "gun control saves lives and guns " * 100),
)
UNICODE_PROBE_PAIRS = (  # decomposed and full-width letters, a soft hyphen, a zero-width space
    ("Is cafe\u0301 culture \uff5a\uff4f\uff4f\uff53?", "Teach\u00aders of E\u0301coles, zo\u200bos \uff01"),
)


class RankerProbe(msgspec.Struct):
    """A pair with its token ids and score."""

    query: str
    premise: str
    query_ids: list[int]
    premise_ids: list[int]
    score: float

    def check_reproduced(self, file: Path, recomputed: RankerProbe) -> None:
        """Compare this stored probe with a recomputed one.

        Raises:
            CheckpointError: If they differ.
        """
        if (self.query, self.premise) != (recomputed.query, recomputed.premise):
            raise CheckpointError(f"{file}: {PROBE_TEXTS_CHANGED}")
        same_ids = (self.query_ids, self.premise_ids) == (recomputed.query_ids, recomputed.premise_ids)
        if not (same_ids and abs(self.score - recomputed.score) <= TOLERANCE * max(1, abs(self.score))):
            raise CheckpointError(
                f"{file}: for the query '{abbreviate(self.query)}' this code computes {recomputed.describe()}, but the "
                f"checkpoint stores {self.describe()}; the text processing or the network has changed: retrain the ranker"
            )

    def describe(self) -> str:
        """Describe the abbreviated token ids and the score."""
        query, premise = (abbreviate(", ".join(map(str, ids))) for ids in (self.query_ids, self.premise_ids))
        return f"ids [{query}], [{premise}] and score {self.score:.6g}"


def run_probe(ranker: Ranker, tokeniser: Tokeniser) -> list[RankerProbe]:
    """Compute the token ids and score of each probe pair, one pair at a time."""
    entries = []
    for query, premise in PROBE_PAIRS if tokeniser.text_rule == 1 else PROBE_PAIRS + UNICODE_PROBE_PAIRS:
        ids = tokeniser.encode_query(query), tokeniser.encode_premise(premise)
        entries.append(RankerProbe(query, premise, *ids, ranker(*pad([ids[0]]), *pad([ids[1]])).item()))
    return entries
