"""Candidates × ranker → scores, in parts that are kept, so that a restarted execution goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.checkpoint import Checkpoint
from submission.device import in_halves
from submission.disk.kept import Kept
from submission.encoding import Padded, batches
from submission.progress import progress
from submission.rankers.base import Ranker, SiameseRanker
from submission.tokens import Tokens

BATCH = {"words": 512, "bert": 32}  # documents computed at a time
BATCH_ON_GPU = 512
KEPT_TOGETHER = {
    "words": 4096,
    "bert": 512,
}  # documents at least whose scores or vectors are kept together: what a kill can cost


def score(pairs: pd.DataFrame, tokens: Tokens, checkpoint: Checkpoint, device: torch.device, kept: Kept) -> np.ndarray:
    """The scores (N,) float32 of pairs of topics and documents.

    Args:
        pairs: `qid docno`, which tokens has.
        tokens: the texts.
        checkpoint: the ranker and its encoder.
        device: where to compute; a GPU computes BERT encoders in half precision.
        kept: where what finished parts give is kept; it must be of these very arguments.

    Raises:
        FloatingPointError: a score is not finite.
        OutputError: that place cannot be written.
    """
    ranker, encoder = checkpoint.ranker.to(device), checkpoint.encoder
    if device.type == "cuda":
        ranker.use_half_precision()
    queries, premises = tokens.queries(encoder), tokens.premises(encoder, pairs["docno"])
    padded = PaddedPairs(
        Padded.of(list(queries.values())), Padded.of(list(premises.values())),
        _places(pairs["qid"], queries), _places(pairs["docno"], premises),
    )  # fmt: skip
    scores = score_pairs(ranker, padded, device, kept)
    faulty = pairs[~np.isfinite(scores)]
    if len(faulty):
        qid, docno = faulty["qid"].iloc[0], faulty["docno"].iloc[0]
        raise FloatingPointError(f"the score of argument {docno} for topic {qid} is not finite")
    return scores


@dataclass(frozen=True)
class PaddedPairs:
    """What to score: pair i is of the query in row query[i] and the premise in row premise[i], (N,) both."""

    queries: Padded
    premises: Padded
    query: np.ndarray
    premise: np.ndarray

    def lengths(self) -> np.ndarray:
        """The premises' lengths (N,)."""
        lengths: np.ndarray = self.premises.lengths.numpy()[self.premise]
        return lengths

    def topics(self) -> list[np.ndarray]:
        """The numbers of each query's pairs."""
        order = np.argsort(self.query, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.query[order])) + 1) if len(order) else []


def score_pairs(ranker: Ranker, pairs: PaddedPairs, device: torch.device, kept: Kept | None = None) -> np.ndarray:
    """Scores (N,) float32, by the way that suits the ranker.

    Args:
        ranker: in evaluation mode, on the device.
        pairs: what to score.
        device: where to compute.
        kept: where what finished parts give is kept; nothing is without.
    """
    size = BATCH_ON_GPU if device.type == "cuda" else BATCH[ranker.form]
    with torch.inference_mode():
        if isinstance(ranker, SiameseRanker):
            return _by_vectors(ranker, pairs, size, device, kept)
        return (_by_topics if ranker.form == "words" else _by_pairs)(ranker, pairs, size, device, kept)


def _by_pairs(ranker: Ranker, pairs: PaddedPairs, size: int, device: torch.device, kept: Kept | None) -> np.ndarray:
    """In batches of similar lengths, of all topics: BERT networks share nothing between pairs."""

    def compute(rows: np.ndarray) -> Tensor:
        return ranker(*pairs.queries.take(pairs.query[rows], device), *pairs.premises.take(pairs.premise[rows], device)).cpu()

    return _in_parts(batches(pairs.lengths(), size), compute, ranker, "pairs", kept)


def _by_topics(ranker: Ranker, pairs: PaddedPairs, size: int, device: torch.device, kept: Kept | None) -> np.ndarray:
    """In batches of one topic, because word networks share what its documents have in common."""
    scores = ranker.by_topic(pairs.queries.ids.long().to(device))

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


def _places(names: pd.Series, among: Mapping[str, object]) -> np.ndarray:
    """Where names (N,) are in the order of others."""
    numbers = {name: number for number, name in enumerate(among)}
    return np.array([numbers[name] for name in names], dtype=int)


def _in_parts(
    work: list[np.ndarray], compute: Callable[[np.ndarray], Tensor], ranker: Ranker, unit: str, kept: Kept | None
) -> np.ndarray:
    """What compute gives for all rows (rows, …), float32; work is their numbers in batches."""
    parts: list[list[np.ndarray]] = []
    for rows in work:
        if not parts or sum(map(len, parts[-1])) >= KEPT_TOGETHER[ranker.form]:
            parts.append([])
        parts[-1].append(rows)

    def computed(part: list[np.ndarray]) -> np.ndarray:
        return np.asarray(torch.cat([in_halves(compute, rows) for rows in part]), dtype=np.float32)

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
