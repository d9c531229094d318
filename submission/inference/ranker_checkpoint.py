"""Ranker checkpoints (see `checkpoint_io`).

config.json also contains the maximum text lengths and the text rule; the probe consists of pairs with their scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from submission.engine.base import CPU
from submission.inference.batching import TokenisedPairs
from submission.inference.checkpoint_io import (
    CheckpointFormat,
    EncoderReference,
    NetworkCheckpoint,
    build_from_config,
)
from submission.inference.pair_scoring import score_pairs
from submission.inference.probe import RankerProbe, run_probe
from submission.models.ranker import Ranker
from submission.models.rankers import get_ranker_class
from submission.text.normalisation import TextRule
from submission.text.tokenisers import TOKENISERS, MaxLengths, Tokeniser


class RankerConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of config.json, except the version."""

    ranker: str
    config: dict[str, Any]
    lengths: MaxLengths
    text_rule: TextRule = 1
    pretrained: EncoderReference | None = None


def _build(directory: Path, values: Any) -> tuple[Ranker, Tokeniser]:
    config = msgspec.convert(values, RankerConfig)
    ranker = build_from_config(get_ranker_class(config.ranker), config.config)
    return ranker, TOKENISERS[ranker.token_unit].load(directory, config.lengths, config.text_rule)


RANKER_FORMAT: CheckpointFormat[Ranker, Tokeniser] = CheckpointFormat(
    "ranker", _build, run_probe, RankerProbe, extra_config=lambda tokeniser: tokeniser.to_config()
)


class RankerCheckpoint(NetworkCheckpoint[Ranker, Tokeniser]):
    """A loaded checkpoint of a ranker."""

    checkpoint_format = RANKER_FORMAT

    def score(self, pairs: Sequence[tuple[str, str]], device: torch.device = CPU) -> np.ndarray:
        """Compute the scores (N,) float32 of pairs of raw query and premise.

        >>> load_checkpoint(Path("checkpoints/knrm")).score([("Should zoos exist?", "Zoos keep animals in cages.")])
        """
        queries = {query: self.tokeniser.encode_query(query) for query, _ in pairs}
        premises = {premise: self.tokeniser.encode_premise(premise) for _, premise in pairs}
        return score_pairs(self.network.to(device), TokenisedPairs.from_names(pairs, queries, premises), device)


load_checkpoint = RankerCheckpoint.load
