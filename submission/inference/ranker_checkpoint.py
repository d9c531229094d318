"""Ranker checkpoints (see `stored`); config.json also holds text lengths and text rule, the probe holds pairs and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from submission.inference.batching import TokenisedPairs
from submission.inference.checkpoint_io import (
    CheckpointFormat,
    EncoderReference,
    build_from_config,
    load_network,
    reduce_to_path,
)
from submission.inference.device import on_device
from submission.inference.pair_scoring import score_pairs
from submission.inference.probe import RankerProbe, run_probe
from submission.models.ranker import Ranker
from submission.models.rankers import find
from submission.text.normalisation import TextRule
from submission.text.tokenisers import TOKENISERS, MaxLengths, Tokeniser

CPU = torch.device("cpu")


class RankerConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Content of config.json, without the version."""

    ranker: str
    config: dict[str, Any]
    lengths: MaxLengths
    text_rule: TextRule = 1
    pretrained: EncoderReference | None = None


@dataclass(frozen=True)
class RankerCheckpoint:
    """A loaded checkpoint: ranker in evaluation mode, tokeniser, and fingerprint of everything that affects scores."""

    ranker: Ranker
    tokeniser: Tokeniser
    fingerprint: str
    directory: Path | None = None  # directory it was loaded from
    precision: torch.dtype | None = None  # encoder precision on a CPU; None means float32

    def __reduce__(self) -> tuple[Callable[..., RankerCheckpoint], tuple[Any, ...]]:
        """Pickle as the checkpoint's path."""
        return reduce_to_path(load_checkpoint, self)

    def ranker_on(self, device: torch.device) -> Ranker:
        """Return the ranker on a device, in the precision for bulk inference."""
        return on_device(self.ranker, device, self.precision)

    def score(self, pairs: Sequence[tuple[str, str]], device: torch.device = CPU) -> np.ndarray:
        """Score raw query-premise pairs (N,) float32.

        >>> open_checkpoint(Path("checkpoints/knrm")).scores([("Should zoos exist?", "Zoos keep animals in cages.")])
        """
        queries = {query: self.tokeniser.encode_query(query) for query, _ in pairs}
        premises = {premise: self.tokeniser.encode_premise(premise) for _, premise in pairs}
        return score_pairs(self.ranker.to(device), TokenisedPairs.from_names(pairs, queries, premises), device)


def _build(directory: Path, values: Any) -> tuple[Ranker, Tokeniser]:
    config = msgspec.convert(values, RankerConfig)
    ranker = build_from_config(find(config.ranker), config.config)
    return ranker, TOKENISERS[ranker.token_unit].load(directory, config.lengths, config.text_rule)


RANKER_FORMAT: CheckpointFormat[Ranker, Tokeniser] = CheckpointFormat(
    "ranker", _build, run_probe, RankerProbe, extra_config=lambda tokeniser: tokeniser.to_config()
)


def load_checkpoint(directory: Path) -> RankerCheckpoint:
    """Load a checkpoint and verify its probe. Raises CheckpointError."""
    return RankerCheckpoint(*load_network(directory, RANKER_FORMAT), directory.absolute())
