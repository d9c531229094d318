"""A network's checkpoint: all that it takes to score as it did when it was trained, and the proof that it still does.

config.json         version of the code, ranker's name, its Config, text lengths
model.safetensors   weights; word tables and encoders in half precision; without the frozen part of an encoder
vocabulary.txt      one term a line (a BERT network: tokenizer.json)
probe.json          awkward texts with the ids and scores they must give
metrics.json        what validation said
provenance.json     what it was trained on and how; the hashes of the files above
README.md           the same for people
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors.torch
import torch

from submission import __version__
from submission.disk.files import read_regular
from submission.disk.provenance import (
    CARD,
    CONFIG,
    METRICS,
    dump_json,
    load_json,
    other_version,
    refuse_unnamed,
    verified_hashes,
    write_with_provenance,
)  # fmt: skip
from submission.errors import CheckpointError, UsageError
from submission.rankers import find
from submission.rankers.base import Ranker
from submission.scoring.batches import PaddedPairs
from submission.scoring.pairs import score_pairs
from submission.scoring.pretrained import Pretrained
from submission.scoring.probe import Probed, probed, refuse_other
from submission.text.tokenisers import TOKENISERS, Lengths, Tokeniser

WEIGHTS, PROBE = "model.safetensors", "probe.json"
CPU = torch.device("cpu")
FAULTS = (  # what files can raise that are whole and do not fit
    OSError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, MemoryError, RuntimeError, UsageError,
    safetensors.SafetensorError,
)  # fmt: skip


class PretrainedName(msgspec.Struct):
    """The encoder that a checkpoint left its frozen part to."""

    name: str
    sha256: str


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """What config.json says, beside the version."""

    ranker: str
    config: dict[str, Any]
    lengths: Lengths
    pretrained: PretrainedName | None = None


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: the ranker in evaluation mode, its tokeniser, and the hash of everything that decides scores."""

    ranker: Ranker
    tokeniser: Tokeniser
    fingerprint: str
    directory: Path | None = None  # where it was opened

    def __reduce__(self) -> tuple[Callable[[Path, str], Checkpoint], tuple[Path, str]]:
        """Pickled as its place: a process that gets it opens it there, once, and proves it."""
        if self.directory is None:
            raise TypeError("a checkpoint that was not opened from a directory has no place")
        return _opened_again, (self.directory, self.fingerprint)

    def scores(self, pairs: Sequence[tuple[str, str]], device: torch.device = CPU) -> np.ndarray:
        """The scores (N,) float32 of queries and premises, both as written.

        >>> open_checkpoint(Path("checkpoints/knrm")).scores([("Should zoos exist?", "Zoos keep animals in cages.")])
        """
        queries = {query: self.tokeniser.query(query) for query, _ in pairs}
        premises = {premise: self.tokeniser.premise(premise) for _, premise in pairs}
        return score_pairs(self.ranker.to(device), PaddedPairs.of(pairs, queries, premises), device)


def open_checkpoint(directory: Path) -> Checkpoint:
    """Open a checkpoint and prove that it computes what it did when it was written.

    Raises:
        CheckpointError: files are missing, damaged or changed; weights do not fit the network; the probe disagrees.
    """
    hashes = verified_hashes(directory, (CONFIG, WEIGHTS, PROBE))
    version: object = "unknown"
    try:
        config = load_json(directory / CONFIG)
        version = config.pop("version")
        given = msgspec.convert(config, Config)
        ranker_class = find(given.ranker)
        ranker_class.Config(**given.config)  # refuses unknown fields, over which msgspec passes
        ranker = ranker_class(msgspec.convert(given.config, ranker_class.Config))
        tensors = safetensors.torch.load_file(directory / WEIGHTS) | _frozen(directory, ranker, given.pretrained)
        ranker.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=True)
        tokeniser = TOKENISERS[ranker.reads].load(directory, given.lengths)
        if not tokeniser.fits(ranker.terms()):
            raise ValueError(f"{tokeniser.file} has other terms than the network's {ranker.terms()} rows")
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise ValueError(f"{WEIGHTS} has numbers that are not finite")
        expected = msgspec.json.decode(read_regular(directory / PROBE), type=list[Probed])
        found = probed(ranker, tokeniser)
    except FAULTS as error:
        raise other_version(directory, error, version) from None
    refuse_unnamed(directory, hashes, (tokeniser.file,))
    refuse_other(directory / PROBE, expected, found)
    decisive = json.dumps([config, *(hashes[name] for name in (WEIGHTS, tokeniser.file))], sort_keys=True)
    return Checkpoint(ranker, tokeniser, hashlib.sha256(decisive.encode()).hexdigest(), directory.absolute())


@cache
def _opened_again(directory: Path, fingerprint: str) -> Checkpoint:
    """A checkpoint in another process. Raises CheckpointError as `open_checkpoint` does, or where it is another one."""
    found = open_checkpoint(directory)
    if found.fingerprint != fingerprint:
        raise CheckpointError(
            f"{directory}: another checkpoint ({found.fingerprint[:12]}…) than where this was begun ({fingerprint[:12]}…); "
            "copy it from there"
        )
    return found


def write_checkpoint(
    directory: Path,
    ranker: Ranker,
    tokeniser: Tokeniser,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    card: str,
    pretrained: Pretrained | None = None,
) -> None:
    """Write a checkpoint directory as a whole: an older one in its place stays until the new one is complete.

    The ranker's own weights are rounded to what is stored, so that it computes what the checkpoint will. Of a pretrained
    encoder with frozen parts only name and hash are stored, with what was trained.

    Raises:
        OutputError: it cannot be written; an older one is still there.
    """
    ranker.use_precision(None)  # the probe is of full precision, as it is where it is compared
    half, absent = ranker.stored_in_half, ranker.not_stored()
    state = {name: tensor for name, tensor in ranker.state_dict().items() if name not in absent}
    stored = {name: tensor.half() if name.startswith(half) else tensor for name, tensor in state.items()}
    ranker.load_state_dict({**ranker.state_dict(), **{name: tensor.float() for name, tensor in stored.items()}})
    config = {
        "version": __version__,
        "ranker": ranker.name(),
        "config": asdict(ranker.config),
        "lengths": asdict(tokeniser.lengths),
    }
    if pretrained:
        config["pretrained"] = {"name": pretrained.name, "sha256": pretrained.sha256}
    contents = {
        CONFIG: dump_json(config),
        WEIGHTS: safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in stored.items()}),
        tokeniser.file: tokeniser.dumps(),
        PROBE: dump_json(msgspec.to_builtins(probed(ranker, tokeniser))),
        METRICS: dump_json(metrics),
        CARD: card.encode(),
    }
    write_with_provenance(directory, contents, provenance)


def _frozen(directory: Path, ranker: Ranker, pretrained: PretrainedName | None) -> dict[str, torch.Tensor]:
    """The tensors that the checkpoint left to its pretrained encoder, if that is still the same."""
    absent = ranker.not_stored()
    if not absent or not pretrained:
        return {}
    folder = Pretrained(pretrained.name)
    if folder.sha256 != pretrained.sha256:
        raise CheckpointError(
            f"{directory}: was trained on the encoder {pretrained.name} with SHA-256 {pretrained.sha256[:12]}…, "
            f"{folder.folder} has {folder.sha256[:12]}…; install the pinned one"
        )
    return {name: tensor for name, tensor in folder.tensors().items() if name in absent}
