"""Load ranker checkpoints (see `checkpoint_io`).

config.json also contains the maximum text lengths and the text rule; the probe consists of pairs
with their scores.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import torch

from aragorn.engine.base import CPU
from aragorn.errors import CheckpointError, abbreviate
from aragorn.inference.checkpoint_io import (
    PROBE_TEXTS_CHANGED,
    EncoderReference,
    NetworkCheckpoint,
    build_from_config,
)
from aragorn.inference.pair_scoring import TokenisedPairs, score_pairs
from aragorn.models.padding import pad
from aragorn.models.ranker import Ranker
from aragorn.models.rankers import get_ranker_class
from aragorn.text.tokenisers import TOKENISERS, MaxLengths, Tokeniser

# absolute for scores up to 1, relative above; differences between machines are smaller
TOLERANCE = 1e-4

PROBE_PAIRS = (
    (
        "Should teachers get tenure?",
        "Teachers, who work hard, should get tenure: it protects them.",
    ),
    (
        "To be, or not to be?",
        "To be or not to be: that is the question!!! that that is the question",
    ),
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
    (  # decomposed and full-width letters, a soft hyphen, a zero-width space
        "Is cafe\u0301 culture \uff5a\uff4f\uff4f\uff53?",
        "Teach\u00aders of E\u0301coles, zo\u200bos \uff01",
    ),
)


class RankerProbe(msgspec.Struct):
    """A probe pair with the expected token ids and score."""

    query: str
    premise: str
    query_ids: list[int]
    premise_ids: list[int]
    score: float

    def check_reproduced(self, file: Path, recomputed: Self) -> None:
        """Compare this stored entry with a recomputed one; raise CheckpointError if they differ."""
        if (self.query, self.premise) != (recomputed.query, recomputed.premise):
            raise CheckpointError(f"{file}: {PROBE_TEXTS_CHANGED}")
        has_same_ids = (self.query_ids, self.premise_ids) == (
            recomputed.query_ids,
            recomputed.premise_ids,
        )
        if not (
            has_same_ids
            and abs(self.score - recomputed.score) <= TOLERANCE * max(1, abs(self.score))
        ):
            raise CheckpointError(
                f"{file}: for the query '{abbreviate(self.query)}' this code computes "
                f"{recomputed.describe()}, but the checkpoint stores {self.describe()}; the text "
                "processing or the network has changed: retrain the ranker"
            )

    def describe(self) -> str:
        """Return the abbreviated token ids and the score as text."""
        query, premise = (
            abbreviate(", ".join(map(str, ids))) for ids in (self.query_ids, self.premise_ids)
        )
        return f"ids [{query}], [{premise}] and score {self.score:.6g}"


class RankerConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of a ranker checkpoint's config.json, except the version."""

    ranker: str
    config: dict[str, Any]
    lengths: MaxLengths
    pretrained: EncoderReference | None = None


class RankerCheckpoint(NetworkCheckpoint[Ranker, Tokeniser]):
    """A loaded ranker and its tokeniser, which score pairs of raw texts."""

    name_key = "ranker"
    probe_type = RankerProbe

    find_network_class = staticmethod(get_ranker_class)

    @classmethod
    def build(cls, directory: Path, config: Any) -> tuple[Ranker, Tokeniser]:
        fields = msgspec.convert(config, RankerConfig)
        ranker = build_from_config(get_ranker_class(fields.ranker), fields.config)
        return ranker, TOKENISERS[ranker.token_unit].load(directory, fields.lengths)

    @staticmethod
    def run_probe(network: Ranker, tokeniser: Tokeniser) -> list[RankerProbe]:
        """Compute the token ids and score of each probe pair, one pair at a time."""
        entries = []
        for query, premise in PROBE_PAIRS:
            query_ids = tokeniser.encode_query(query)
            premise_ids = tokeniser.encode_premise(premise)
            score = network(*pad([query_ids]), *pad([premise_ids])).item()
            entries.append(RankerProbe(query, premise, query_ids, premise_ids, score))
        return entries

    def score(self, pairs: Sequence[tuple[str, str]], device: torch.device = CPU) -> np.ndarray:
        """Move the network to the device, and compute the scores (N,) float32 of pairs of raw query
        and premise texts.

        >>> load_checkpoint(Path("checkpoints/knrm")).score([("Should zoos exist?", "Zoos keep
        animals in cages.")])
        """
        queries = {query: self.tokeniser.encode_query(query) for query, _ in pairs}
        premises = {premise: self.tokeniser.encode_premise(premise) for _, premise in pairs}
        return score_pairs(
            self.network.to(device), TokenisedPairs.from_keys(pairs, queries, premises), device
        )


load_checkpoint = RankerCheckpoint.load
