"""Pairs of ids × network → scores, each network in its own way, in parts that are kept: a restarted execution goes on there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from submission.disk.kept import Kept
from submission.progress import progress
from submission.rankers.base import Ranker, SiameseRanker, TopicRanker
from submission.scoring.batches import PaddedPairs, batches
from submission.scoring.device import in_halves

BATCH_ON_GPU = 512


def score_pairs(ranker: Ranker, pairs: PaddedPairs, device: torch.device, kept: Kept | None = None) -> np.ndarray:
    """Scores (N,) float32, by the way that suits the ranker.

    Args:
        ranker: in evaluation mode, on the device.
        pairs: what to score.
        device: where to compute.
        kept: where the scores of finished parts are kept; None: nowhere.
    """
    size = BATCH_ON_GPU if device.type == "cuda" else ranker.batch
    with torch.inference_mode():
        if isinstance(ranker, SiameseRanker):
            return _by_vectors(ranker, pairs, size, device, kept)
        if isinstance(ranker, TopicRanker):
            return _by_topics(ranker, pairs, size, device, kept)
        return _one_by_one(ranker, pairs, size, device, kept)


def _one_by_one(ranker: Ranker, pairs: PaddedPairs, size: int, device: torch.device, kept: Kept | None) -> np.ndarray:
    """In batches of similar lengths, of all topics: nothing is shared between pairs."""

    def compute(rows: np.ndarray) -> Tensor:
        return ranker(*pairs.queries.take(pairs.query[rows], device), *pairs.premises.take(pairs.premise[rows], device)).cpu()

    return _in_parts(batches(pairs.lengths(), size), compute, ranker, "pairs", kept)


def _by_topics(ranker: TopicRanker, pairs: PaddedPairs, size: int, device: torch.device, kept: Kept | None) -> np.ndarray:
    """In batches of one topic, whose documents share some work."""
    scores = ranker.prepare(pairs.queries.ids.long().to(device))

    def compute(rows: np.ndarray) -> Tensor:
        query, premises = pairs.query[rows[:1]], pairs.premise[rows]
        return scores(*pairs.queries.take(query, device), *pairs.premises.take(premises, device)).cpu()

    lengths = pairs.lengths()
    work = [rows[batch] for rows in pairs.topics() for batch in batches(lengths[rows], size)]
    return _in_parts(work, compute, ranker, "pairs", kept)


def _by_vectors(ranker: SiameseRanker, pairs: PaddedPairs, size: int, device: torch.device, kept: Kept | None) -> np.ndarray:
    """Each distinct premise being read once for all topics."""
    premises, place = np.unique(pairs.premise, return_inverse=True)

    def compute(rows: np.ndarray) -> Tensor:
        return ranker.represent_many(*pairs.premises.take(premises[rows], device)).cpu()

    vectors = _in_parts(batches(pairs.premises.lengths.numpy()[premises], size), compute, ranker, "premises", kept)
    scores = np.empty(len(pairs.premise), dtype=np.float32)
    for rows in pairs.topics():
        query = ranker.represent(*pairs.queries.take(pairs.query[rows[:1]], device))
        document = torch.from_numpy(vectors[place[rows]]).to(device)
        scores[rows] = ranker.match(query.expand(len(rows), -1), document).cpu()
    return scores


def _in_parts(
    work: list[np.ndarray], compute: Callable[[np.ndarray], Tensor], ranker: Ranker, unit: str, kept: Kept | None
) -> np.ndarray:
    """What compute gives for all rows (rows, …), float32; work is their numbers in batches."""
    parts: list[list[np.ndarray]] = []
    for rows in work:
        if not parts or sum(map(len, parts[-1])) >= ranker.kept_together:
            parts.append([])
        parts[-1].append(rows)

    def computed(part: list[np.ndarray]) -> np.ndarray:
        return np.asarray(torch.cat([in_halves(compute, rows, torch.cat) for rows in part]), dtype=np.float32)

    sizes = [sum(map(len, part)) for part in parts]
    if kept:
        found = [
            kept.array(f"part-{number:05}.npy", partial(computed, part))
            for number, part in enumerate(progress(parts, ranker.name(), unit, sizes))
        ]
    else:
        found = [computed(part) for part in parts]
    if not found:
        return np.empty(0, dtype=np.float32)
    values = np.empty((sum(sizes), *found[0].shape[1:]), dtype=np.float32)
    values[np.concatenate(work)] = np.concatenate(found)
    return values
