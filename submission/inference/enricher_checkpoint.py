"""Enricher checkpoints (see `scoring.stored`); the probe holds texts and their token annotations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import torch

from submission.errors import CheckpointError, short
from submission.inference.checkpoint_io import OTHER_TEXTS, Kind, PretrainedName, as_place, configured, open_network
from submission.inference.device import on_device
from submission.inference.probe import PAIRS, TOLERANCE
from submission.models.enricher import Enricher, Reader, Word
from submission.models.enrichers import find

SENTENCES = "Zoos are cruel! Are they? Yes, they are (mostly).\nThey keep wild animals in cages; for what … " * 20
TEXTS = (*(text for _, text in PAIRS), SENTENCES)


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """Content of config.json, without the version."""

    enricher: str
    config: dict[str, Any]
    pretrained: PretrainedName | None = None


class Probed(msgspec.Struct):
    """A text with the annotations of its passages."""

    text: str
    passages: list[list[Word]]

    def refuse_other(self, file: Path, recomputed: Probed) -> None:
        """Compare the stored probe with a recomputed one. Raises CheckpointError if they differ."""
        if self.text != recomputed.text:
            raise CheckpointError(f"{file}: {OTHER_TEXTS}")
        stored, current = (list(chain.from_iterable(probe.passages)) for probe in (self, recomputed))
        mismatch = next((pair for pair in zip_longest(stored, current) if None in pair or _differ(*pair)), None)
        sizes, new_sizes = (list(map(len, probe.passages)) for probe in (self, recomputed))
        if mismatch or sizes != new_sizes:
            old, new = mismatch or (f"passages of {sizes} tokens", f"passages of {new_sizes} tokens")
            raise CheckpointError(
                f"{file}: for {short(self.text, 40)!r} this code computes {new}, but the checkpoint stores {old}; the text "
                "processing or the network has changed: retrain it"
            )


def _differ(stored: Word, current: Word) -> bool:
    tolerance = TOLERANCE * max(1, abs(stored.weight))
    return stored._replace(weight=current.weight) != current or abs(stored.weight - current.weight) > tolerance


@dataclass(frozen=True)
class EnricherCheckpoint:
    """A loaded checkpoint: enricher in evaluation mode, tokeniser, and fingerprint of everything that affects its output."""

    enricher: Enricher[Any]
    reader: Reader[Any]
    fingerprint: str
    directory: Path | None = None  # directory it was loaded from
    precision: torch.dtype | None = None  # encoder precision on a CPU; None means float32

    def __reduce__(self) -> tuple[Callable[..., EnricherCheckpoint], tuple[Any, ...]]:
        """Pickle as the checkpoint's path."""
        return as_place(open_enricher, self)

    def on(self, device: torch.device) -> Enricher[Any]:
        """Return the enricher on a device, in the precision for bulk inference."""
        return on_device(self.enricher, device, self.precision)


def _built(directory: Path, values: Any) -> tuple[Enricher[Any], Reader[Any]]:
    config = msgspec.convert(values, Config)
    enricher = configured(find(config.enricher), config.config)
    return enricher, enricher.Reader.load(directory, enricher.config)


def _probed(enricher: Enricher[Any], reader: Reader[Any]) -> list[Probed]:
    """Annotate each passage separately."""
    return [Probed(text, [enricher.words([passage])[0] for passage in reader.passages(text)]) for text in TEXTS]


ENRICHERS: Kind[Enricher[Any], Reader[Any]] = Kind("enricher", _built, _probed, Probed, settings=lambda reader: {})


def open_enricher(directory: Path) -> EnricherCheckpoint:
    """Load a checkpoint and verify its probe. Raises CheckpointError."""
    return EnricherCheckpoint(*open_network(directory, ENRICHERS), directory.absolute())
