"""Network checkpoints: everything that inference needs, and a probe that verifies it.

config.json         code version, network name, its Config, and fields of its kind
model.safetensors   weights; embeddings and encoders in float16; without frozen encoder layers
(tokeniser's file)  vocabulary.txt or tokenizer.json
probe.json          edge-case inputs with expected outputs
metrics.json        validation metrics
provenance.json     training data and settings; hashes of the files above
README.md           model card
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec
import safetensors.torch
import torch

from submission import __version__
from submission.errors import CheckpointError, UsageError
from submission.inference.pretrained import Pretrained
from submission.models.network import Network
from submission.storage.atomic_files import read_regular
from submission.storage.checkpoint_directory import (
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

WEIGHTS, PROBE = "model.safetensors", "probe.json"
OTHER_TEXTS = "its probe texts differ from this version's; recreate the checkpoint"
FAULTS = (  # raised by intact files that do not fit this code
    OSError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, MemoryError, RuntimeError, UsageError,
    safetensors.SafetensorError,
)  # fmt: skip


class Reader(Protocol):
    """A tokeniser that a checkpoint stores."""

    file: ClassVar[str]  # file name in a checkpoint

    def fits(self, terms: int) -> bool:
        """Return whether its ids fit a network with `terms` embedding rows."""

    def dumps(self) -> bytes:
        """Return the content of its file."""


N = TypeVar("N", bound=Network)
R = TypeVar("R", bound=Reader)
K = TypeVar("K", bound=Network)
S = TypeVar("S", bound="LoadedNetwork")


class PretrainedName(msgspec.Struct):
    """Reference to the pretrained encoder that holds the frozen layers."""

    name: str
    sha256: str


class Opened(Protocol):
    """A loaded checkpoint."""

    @property
    def fingerprint(self) -> str:
        """Return the hash of everything that affects its output."""


class LoadedNetwork(Opened, Protocol):
    """A loaded network checkpoint."""

    @property
    def directory(self) -> Path | None:
        """Return the absolute path it was loaded from."""

    @property
    def precision(self) -> torch.dtype | None:
        """Return the encoder's CPU precision; None means float32."""


class Row(Protocol):
    """Input texts and the network's output for them."""

    def refuse_other(self, file: Path, recomputed: Any) -> None:
        """Compare the stored probe with a recomputed one. Raises CheckpointError if they differ."""


@dataclass(frozen=True)
class Kind(Generic[N, R]):
    """Properties that differ between kinds of checkpoints."""

    key: str  # config.json key of the network's name
    build: Callable[[Path, Any], tuple[N, R]]  # builds both from a directory and its config; raises FAULTS
    probed: Callable[[N, R], list[Any]]  # computes the probe entries
    row: type[Row]  # their type
    settings: Callable[[R], dict[str, Any]]  # additional config.json fields


def open_network(directory: Path, kind: Kind[N, R]) -> tuple[N, R, str]:
    """Load a checkpoint and verify its probe.

    Returns:
        network in evaluation mode, tokeniser, fingerprint.

    Raises:
        CheckpointError: files are missing, damaged or changed, weights do not fit, or the probe is not reproduced.
    """
    hashes = verified_hashes(directory, (CONFIG, WEIGHTS, PROBE))
    version: object = "unknown"
    try:
        config = load_json(directory / CONFIG)
        version = config.pop("version")
        network, reader = kind.build(directory, config)
        pretrained = msgspec.convert(config.get("pretrained"), PretrainedName | None)
        tensors = safetensors.torch.load_file(directory / WEIGHTS) | _frozen(directory, network, pretrained)
        network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=True)
        if not reader.fits(network.terms()):
            raise ValueError(f"{reader.file} does not match the network's {network.terms()} embedding rows")
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise ValueError(f"{WEIGHTS} contains non-finite values")
        stored = msgspec.json.decode(read_regular(directory / PROBE), type=list[kind.row])  # type: ignore[name-defined]
        recomputed = _probed(kind, network, reader)
    except FAULTS as error:
        raise other_version(directory, error, version) from None
    refuse_unnamed(directory, hashes, (reader.file,))
    if len(stored) != len(recomputed):
        raise CheckpointError(f"{directory / PROBE}: {OTHER_TEXTS}")
    for stored_entry, new_entry in zip(stored, recomputed, strict=True):
        stored_entry.refuse_other(directory / PROBE, new_entry)
    fingerprint_source = json.dumps([config, *(hashes[name] for name in (WEIGHTS, reader.file))], sort_keys=True)
    return network, reader, hashlib.sha256(fingerprint_source.encode()).hexdigest()


def write_network(
    directory: Path,
    kind: Kind[N, R],
    network: N,
    reader: R,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    card: str,
    pretrained: Pretrained | None = None,
) -> None:
    """Save a checkpoint directory atomically; an existing one is replaced once the new one is complete.

    Rounds the network's weights to the stored precision, so that it computes what the checkpoint will. For a pretrained
    encoder with frozen layers, stores its name, hash and the trained layers.

    Raises:
        OutputError: it cannot be written; the existing one is unchanged.
    """
    network.use_precision(None)  # the probe is always computed in full precision
    half_prefixes, omitted = network.stored_in_half, network.not_stored()
    state = {name: tensor for name, tensor in network.state_dict().items() if name not in omitted}
    stored = {name: tensor.half() if name.startswith(half_prefixes) else tensor for name, tensor in state.items()}
    network.load_state_dict({**network.state_dict(), **{name: tensor.float() for name, tensor in stored.items()}})
    config = {"version": __version__, kind.key: network.name(), "config": asdict(network.config), **kind.settings(reader)}
    if pretrained:
        config["pretrained"] = {"name": pretrained.name, "sha256": pretrained.sha256}
    contents = {
        CONFIG: dump_json(config),
        WEIGHTS: safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in stored.items()}),
        reader.file: reader.dumps(),
        PROBE: dump_json(msgspec.to_builtins(_probed(kind, network, reader))),
        METRICS: dump_json(metrics),
        CARD: card.encode(),
    }
    write_with_provenance(directory, contents, provenance)


def in_precision(opened: S, precision: torch.dtype | None) -> S:
    """Return the checkpoint with another CPU precision for bulk inference; None means float32."""
    return replace(opened, precision=precision)  # type: ignore[type-var]


def as_place(open_it: Callable[[Path], S], opened: S) -> tuple[Callable[..., S], tuple[Any, ...]]:
    """Reduce a checkpoint to its path for pickling; the receiving process loads and verifies it once.

    Args:
        open_it: a module-level function.
        opened: the checkpoint that it returned.

    Raises:
        TypeError: the checkpoint has no path.
    """
    if opened.directory is None:
        raise TypeError("cannot pickle a checkpoint that was not loaded from a directory")
    return _opened_again, (open_it, opened.directory, opened.fingerprint, opened.precision)


@cache
def _opened_again(open_it: Callable[[Path], S], directory: Path, fingerprint: str, precision: torch.dtype | None) -> S:
    """Load a checkpoint in a worker process. Raises CheckpointError if loading fails or the fingerprint differs."""
    checkpoint = in_precision(open_it(directory), precision)
    if checkpoint.fingerprint != fingerprint:
        raise CheckpointError(
            f"{directory}: checkpoint {checkpoint.fingerprint[:12]}… differs from the main process's ({fingerprint[:12]}…); "
            "copy that one here"
        )
    return checkpoint


def configured(network_class: type[K], values: Mapping[str, Any]) -> K:
    """Build a network from its Config. Raises TypeError, ValueError for unknown fields or impossible sizes."""
    network_class.Config(**values)  # rejects unknown fields, which msgspec ignores
    return network_class(msgspec.convert(values, network_class.Config))


@torch.no_grad()
def _probed(kind: Kind[N, R], network: N, reader: R) -> list[Any]:
    """Compute the probe entries on the CPU."""
    device = next(network.parameters()).device
    entries = kind.probed(network.cpu().eval(), reader)
    network.to(device)
    return entries


def _frozen(directory: Path, network: Network, pretrained: PretrainedName | None) -> dict[str, torch.Tensor]:
    """Load the frozen weights from the pretrained encoder if its hash still matches."""
    omitted = network.not_stored()
    if not omitted or not pretrained:
        return {}
    encoder = Pretrained(pretrained.name)
    if encoder.sha256 != pretrained.sha256:
        raise CheckpointError(
            f"{directory}: trained with the encoder {pretrained.name}, SHA-256 {pretrained.sha256[:12]}…, but {encoder.folder} "
            f"has {encoder.sha256[:12]}…; install the pinned version"
        )
    return {name: tensor for name, tensor in encoder.tensors().items() if name in omitted}
