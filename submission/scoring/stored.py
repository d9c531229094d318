"""A network on disk: all that it takes to compute as it did when it was trained, and the proof that it still does.

config.json         version of the code, network's name, its Config, and what else its kind needs
model.safetensors   weights; word tables and encoders in half precision; without the frozen part of an encoder
(the reader's file) vocabulary.txt or tokenizer.json
probe.json          awkward texts with what the network must make of them
metrics.json        what validation said
provenance.json     what it was trained on and how; the hashes of the files above
README.md           the same for people
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
from submission.rankers.network import Network
from submission.scoring.pretrained import Pretrained

WEIGHTS, PROBE = "model.safetensors", "probe.json"
OTHER_TEXTS = "holds other texts than this version of the code probes; make the checkpoint again"
FAULTS = (  # what files can raise that are whole and do not fit
    OSError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, MemoryError, RuntimeError, UsageError,
    safetensors.SafetensorError,
)  # fmt: skip


class Reader(Protocol):
    """Turns texts into a network's input."""

    file: ClassVar[str]  # in a checkpoint, what `dumps` gives

    def fits(self, terms: int) -> bool:
        """Tell whether its ids fit a network with vectors for so many ids."""

    def dumps(self) -> bytes:
        """The content of its file."""


N = TypeVar("N", bound=Network)
R = TypeVar("R", bound=Reader)
K = TypeVar("K", bound=Network)
S = TypeVar("S", bound="Opened")


class PretrainedName(msgspec.Struct):
    """The encoder that a checkpoint left its frozen part to."""

    name: str
    sha256: str


class Opened(Protocol):
    """An opened checkpoint."""

    @property
    def fingerprint(self) -> str:
        """The hash of everything in it that decides what it computes."""

    @property
    def directory(self) -> Path | None:
        """The absolute path that it was opened from."""

    @property
    def precision(self) -> torch.dtype | None:
        """The precision of an encoder on a CPU; None: float32."""


class Row(Protocol):
    """A text, or several, and what a network makes of it."""

    def refuse_other(self, file: Path, found: Any) -> None:
        """Compare what was written with what comes out now. Raises CheckpointError."""


@dataclass(frozen=True)
class Kind(Generic[N, R]):
    """The parts of a checkpoint that differ between kinds of networks."""

    key: str  # in config.json, the name of the network
    build: Callable[[Path, Any], tuple[N, R]]  # from a directory and what config.json says; raises FAULTS
    probed: Callable[[N, R], list[Any]]  # the rows of its probe
    row: type[Row]  # of these
    settings: Callable[[R], dict[str, Any]]  # what config.json says beside version, name, Config and encoder


def open_network(directory: Path, kind: Kind[N, R]) -> tuple[N, R, str]:
    """Open a checkpoint and prove that it computes what it did when it was written.

    Returns:
        the network in evaluation mode, its reader, and the hash of everything that decides what it computes.

    Raises:
        CheckpointError: files are missing, damaged or changed; weights do not fit the network; the probe disagrees.
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
            raise ValueError(f"{reader.file} has other terms than the network's {network.terms()} rows")
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise ValueError(f"{WEIGHTS} has numbers that are not finite")
        expected = msgspec.json.decode(read_regular(directory / PROBE), type=list[kind.row])  # type: ignore[name-defined]
        found = _probed(kind, network, reader)
    except FAULTS as error:
        raise other_version(directory, error, version) from None
    refuse_unnamed(directory, hashes, (reader.file,))
    if len(expected) != len(found):
        raise CheckpointError(f"{directory / PROBE}: {OTHER_TEXTS}")
    for old, new in zip(expected, found, strict=True):
        old.refuse_other(directory / PROBE, new)
    decisive = json.dumps([config, *(hashes[name] for name in (WEIGHTS, reader.file))], sort_keys=True)
    return network, reader, hashlib.sha256(decisive.encode()).hexdigest()


def write_network(
    directory: Path,
    kind: Kind[N, R],
    network: N,
    reader: R,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    card: str,
    pretrained: Pretrained | None,
) -> None:
    """Write a checkpoint directory as a whole: an older one in its place stays until the new one is complete.

    The network's own weights are rounded to what is stored, so that it computes what the checkpoint will. Of a pretrained
    encoder with frozen parts only name and hash are stored, with what was trained.

    Raises:
        OutputError: it cannot be written; an older one is still there.
    """
    network.use_precision(None)  # the probe is of full precision, as it is where it is compared
    half, absent = network.stored_in_half, network.not_stored()
    state = {name: tensor for name, tensor in network.state_dict().items() if name not in absent}
    stored = {name: tensor.half() if name.startswith(half) else tensor for name, tensor in state.items()}
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
    """The same checkpoint, whose encoder computes many texts on a CPU in a precision; None: float32."""
    return replace(opened, precision=precision)  # type: ignore[type-var]


def as_place(open_it: Callable[[Path], S], opened: S) -> tuple[Callable[..., S], tuple[Any, ...]]:
    """Pickle an opened checkpoint by its place: the receiving process opens and proves it once.

    Args:
        open_it: a function of a module.
        opened: what it gave. Raises TypeError: it was not opened from a directory.
    """
    if opened.directory is None:
        raise TypeError("a checkpoint that was not opened from a directory has no place")
    return _opened_again, (open_it, opened.directory, opened.fingerprint, opened.precision)


@cache
def _opened_again(open_it: Callable[[Path], S], directory: Path, fingerprint: str, precision: torch.dtype | None) -> S:
    """A checkpoint in another process. Raises CheckpointError as `open_network` does, or where it is another one."""
    found = in_precision(open_it(directory), precision)
    if found.fingerprint != fingerprint:
        raise CheckpointError(
            f"{directory}: another checkpoint ({found.fingerprint[:12]}…) than where this was begun ({fingerprint[:12]}…); "
            "copy it from there"
        )
    return found


def configured(network_class: type[K], given: Mapping[str, Any]) -> K:
    """A network by what config.json says of its Config. Raises TypeError, ValueError: unknown fields, impossible sizes."""
    network_class.Config(**given)  # refuses unknown fields, over which msgspec passes
    return network_class(msgspec.convert(given, network_class.Config))


@torch.no_grad()
def _probed(kind: Kind[N, R], network: N, reader: R) -> list[Any]:
    """The rows of the probe, computed on the CPU."""
    device = next(network.parameters()).device
    rows = kind.probed(network.cpu().eval(), reader)
    network.to(device)
    return rows


def _frozen(directory: Path, network: Network, pretrained: PretrainedName | None) -> dict[str, torch.Tensor]:
    """The tensors that the checkpoint left to its pretrained encoder, if that is still the same."""
    absent = network.not_stored()
    if not absent or not pretrained:
        return {}
    folder = Pretrained(pretrained.name)
    if folder.sha256 != pretrained.sha256:
        raise CheckpointError(
            f"{directory}: was trained on the encoder {pretrained.name} with SHA-256 {pretrained.sha256[:12]}…, "
            f"{folder.folder} has {folder.sha256[:12]}…; install the pinned one"
        )
    return {name: tensor for name, tensor in folder.tensors().items() if name in absent}
