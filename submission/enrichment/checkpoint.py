"""An enricher's checkpoint (see `scoring.stored`): the probe has texts and what the enricher says of their words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import torch

from submission.enrichment import find
from submission.enrichment.base import Enricher, Reader, Word
from submission.errors import CheckpointError, short
from submission.scoring.precision import on_device
from submission.scoring.pretrained import Pretrained
from submission.scoring.probe import PAIRS, TOLERANCE
from submission.scoring.stored import OTHER_TEXTS, Kind, PretrainedName, as_place, configured, open_network, write_network

SENTENCES = "Zoos are cruel! Are they? Yes, they are (mostly).\nThey keep wild animals in cages; for what … " * 20
TEXTS = (*(text for _, text in PAIRS), SENTENCES)


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """The content of config.json, beside the version."""

    enricher: str
    config: dict[str, Any]
    pretrained: PretrainedName | None = None


class Probed(msgspec.Struct):
    """A text, and the words of its passages."""

    text: str
    passages: list[list[Word]]

    def refuse_other(self, file: Path, found: Probed) -> None:
        """Compare what was written with what comes out now. Raises CheckpointError."""
        if self.text != found.text:
            raise CheckpointError(f"{file}: {OTHER_TEXTS}")
        old, new = (list(chain.from_iterable(one.passages)) for one in (self, found))
        differing = next((pair for pair in zip_longest(old, new) if None in pair or _differ(*pair)), None)
        sizes = [list(map(len, one.passages)) for one in (self, found)]
        if differing or sizes[0] != sizes[1]:
            told = (
                f"{differing[1]}, the checkpoint {differing[0]}"
                if differing
                else f"passages of {sizes[1]} words, not {sizes[0]}"
            )
            raise CheckpointError(
                f"{file}: of {short(self.text, 40)!r} this code says {told}; the text processing or the network has changed: "
                "train it again"
            )


def _differ(old: Word, new: Word) -> bool:
    return old._replace(weight=new.weight) != new or abs(old.weight - new.weight) > TOLERANCE * max(1, abs(old.weight))


@dataclass(frozen=True)
class EnricherCheckpoint:
    """An opened checkpoint: the enricher in evaluation mode, its reader, and the hash of everything that decides its words."""

    enricher: Enricher[Any]
    reader: Reader[Any]
    fingerprint: str
    directory: Path | None = None  # where it was opened
    precision: torch.dtype | None = None  # of an encoder on a CPU; None: float32

    def __reduce__(self) -> tuple[Callable[..., EnricherCheckpoint], tuple[Any, ...]]:
        """Pickled as its place."""
        return as_place(open_enricher, self)

    def on(self, device: torch.device) -> Enricher[Any]:
        """The enricher on a device, in the precision for many texts there."""
        return on_device(self.enricher, device, self.precision)


def _built(directory: Path, given: Any) -> tuple[Enricher[Any], Reader[Any]]:
    config = msgspec.convert(given, Config)
    enricher = configured(find(config.enricher), config.config)
    return enricher, enricher.Reader.load(directory, enricher.config)


def _probed(enricher: Enricher[Any], reader: Reader[Any]) -> list[Probed]:
    """Each passage is computed alone."""
    read = {text: [enricher.words([passage])[0] for passage in reader.passages(text)] for text in TEXTS}
    return [Probed(text, passages) for text, passages in read.items()]


ENRICHERS: Kind[Enricher[Any], Reader[Any]] = Kind("enricher", _built, _probed, Probed, settings=lambda reader: {})


def open_enricher(directory: Path) -> EnricherCheckpoint:
    """Open a checkpoint and prove that it says what it did when it was written. Raises CheckpointError."""
    return EnricherCheckpoint(*open_network(directory, ENRICHERS), directory.absolute())


def write_enricher(
    directory: Path,
    enricher: Enricher[Any],
    reader: Reader[Any],
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    card: str,
    pretrained: Pretrained | None = None,
) -> None:
    """Write a checkpoint directory as `write_network` does. Raises OutputError."""
    write_network(directory, ENRICHERS, enricher, reader, metrics, provenance, card, pretrained)
