"""A ranker's checkpoint (see `stored`): config.json has the text lengths and rule too, the probe texts and scores of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from submission.rankers import find
from submission.rankers.base import Ranker
from submission.scoring.batches import PaddedPairs
from submission.scoring.pairs import score_pairs
from submission.scoring.precision import on_device
from submission.scoring.pretrained import Pretrained
from submission.scoring.probe import Probed, probed
from submission.scoring.stored import Kind, PretrainedName, as_place, configured, open_network, write_network
from submission.text.normalise import TextRule
from submission.text.tokenisers import TOKENISERS, Lengths, Tokeniser

CPU = torch.device("cpu")


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """The content of config.json, without the version."""

    ranker: str
    config: dict[str, Any]
    lengths: Lengths
    text_rule: TextRule = 1
    pretrained: PretrainedName | None = None


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: the ranker in evaluation mode, its tokeniser, and the hash of everything that decides scores."""

    ranker: Ranker
    tokeniser: Tokeniser
    fingerprint: str
    directory: Path | None = None  # where it was opened
    precision: torch.dtype | None = None  # of an encoder on a CPU; None: float32

    def __reduce__(self) -> tuple[Callable[..., Checkpoint], tuple[Any, ...]]:
        """Pickled as its place."""
        return as_place(open_checkpoint, self)

    def on(self, device: torch.device) -> Ranker:
        """The ranker on a device, in the precision for many texts there."""
        return on_device(self.ranker, device, self.precision)

    def scores(self, pairs: Sequence[tuple[str, str]], device: torch.device = CPU) -> np.ndarray:
        """The scores (N,) float32 of queries and premises, both as written.

        >>> open_checkpoint(Path("checkpoints/knrm")).scores([("Should zoos exist?", "Zoos keep animals in cages.")])
        """
        queries = {query: self.tokeniser.query(query) for query, _ in pairs}
        premises = {premise: self.tokeniser.premise(premise) for _, premise in pairs}
        return score_pairs(self.ranker.to(device), PaddedPairs.of(pairs, queries, premises), device)


def _built(directory: Path, given: Any) -> tuple[Ranker, Tokeniser]:
    config = msgspec.convert(given, Config)
    ranker = configured(find(config.ranker), config.config)
    return ranker, TOKENISERS[ranker.reads].load(directory, config.lengths, config.text_rule)


RANKERS: Kind[Ranker, Tokeniser] = Kind("ranker", _built, probed, Probed, settings=lambda tokeniser: tokeniser.settings())


def open_checkpoint(directory: Path) -> Checkpoint:
    """Open a checkpoint and prove that it computes what it did when it was written. Raises CheckpointError."""
    return Checkpoint(*open_network(directory, RANKERS), directory.absolute())


def write_checkpoint(
    directory: Path,
    ranker: Ranker,
    tokeniser: Tokeniser,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    card: str,
    pretrained: Pretrained | None = None,
) -> None:
    """Write a checkpoint directory as `write_network` does. Raises OutputError."""
    write_network(directory, RANKERS, ranker, tokeniser, metrics, provenance, card, pretrained)
