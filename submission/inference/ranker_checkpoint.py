"""Ranker checkpoints (see `stored`); config.json also holds text lengths and text rule, the probe holds pairs and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from submission.inference.batching import PaddedPairs
from submission.inference.checkpoint_io import Kind, PretrainedName, as_place, configured, open_network
from submission.inference.device import on_device
from submission.inference.pair_scoring import score_pairs
from submission.inference.probe import Probed, probed
from submission.models.ranker import Ranker
from submission.models.rankers import find
from submission.text.normalisation import TextRule
from submission.text.tokenisers import TOKENISERS, Lengths, Tokeniser

CPU = torch.device("cpu")


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """Content of config.json, without the version."""

    ranker: str
    config: dict[str, Any]
    lengths: Lengths
    text_rule: TextRule = 1
    pretrained: PretrainedName | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: ranker in evaluation mode, tokeniser, and fingerprint of everything that affects scores."""

    ranker: Ranker
    tokeniser: Tokeniser
    fingerprint: str
    directory: Path | None = None  # directory it was loaded from
    precision: torch.dtype | None = None  # encoder precision on a CPU; None means float32

    def __reduce__(self) -> tuple[Callable[..., Checkpoint], tuple[Any, ...]]:
        """Pickle as the checkpoint's path."""
        return as_place(open_checkpoint, self)

    def on(self, device: torch.device) -> Ranker:
        """Return the ranker on a device, in the precision for bulk inference."""
        return on_device(self.ranker, device, self.precision)

    def scores(self, pairs: Sequence[tuple[str, str]], device: torch.device = CPU) -> np.ndarray:
        """Score raw query-premise pairs (N,) float32.

        >>> open_checkpoint(Path("checkpoints/knrm")).scores([("Should zoos exist?", "Zoos keep animals in cages.")])
        """
        queries = {query: self.tokeniser.query(query) for query, _ in pairs}
        premises = {premise: self.tokeniser.premise(premise) for _, premise in pairs}
        return score_pairs(self.ranker.to(device), PaddedPairs.of(pairs, queries, premises), device)


def _built(directory: Path, values: Any) -> tuple[Ranker, Tokeniser]:
    config = msgspec.convert(values, Config)
    ranker = configured(find(config.ranker), config.config)
    return ranker, TOKENISERS[ranker.reads].load(directory, config.lengths, config.text_rule)


RANKERS: Kind[Ranker, Tokeniser] = Kind("ranker", _built, probed, Probed, settings=lambda tokeniser: tokeniser.settings())


def open_checkpoint(directory: Path) -> Checkpoint:
    """Load a checkpoint and verify its probe. Raises CheckpointError."""
    return Checkpoint(*open_network(directory, RANKERS), directory.absolute())
