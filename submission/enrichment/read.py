"""Texts × enricher → what it says of their words: passages of all texts together, in batches of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import torch

from submission.enrichment.base import Word
from submission.enrichment.checkpoint import EnricherCheckpoint
from submission.scoring.batches import batches_of_positions
from submission.scoring.device import in_batches, positions


def read(texts: Sequence[str], opened: EnricherCheckpoint, device: torch.device) -> list[list[list[Word]]]:
    """The words of each passage of each text, the longest passages computed first: a GPU's memory is then asked for once."""
    enricher = opened.on(device)
    of_text = [opened.reader.passages(text) for text in texts]
    passages = list(chain.from_iterable(of_text))

    def compute(rows: np.ndarray) -> list[list[Word]]:
        return enricher.words([passages[row] for row in rows])

    most = max(positions(device, opened.precision), enricher.together)
    work = batches_of_positions([len(passage) for passage in passages], most)
    said: dict[int, list[Word]] = {}
    for rows, found in zip(work, in_batches(compute, work, device, _chained), strict=True):
        said |= dict(zip(rows.tolist(), found, strict=True))
    place: Iterator[int] = iter(range(len(passages)))
    return [[said[next(place)] for _ in own] for own in of_text]


def _chained(parts: list[list[list[Word]]]) -> list[list[Word]]:
    return list(chain.from_iterable(parts))
