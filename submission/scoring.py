"""Candidates × ranker → scores, in parts that are kept, so that a restarted execution goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.checkpoint import Checkpoint
from submission.device import in_halves
from submission.encoding import batches, pad
from submission.progress import progress
from submission.rankers.base import Ranker, SiameseRanker
from submission.tokens import Tokens
from submission.work import kept

BATCH = {"words": 512, "bert": 32}  # documents computed at a time
BATCH_ON_GPU = 512
PART = {"words": 4096, "bert": 512}  # documents at least whose scores or vectors are kept together: what a kill can cost


def score(
    candidates: pd.DataFrame, tokens: Tokens, checkpoint: Checkpoint, device: torch.device, directory: Path
) -> pd.DataFrame:
    """Score candidates `qid docno` with a ranker.

    Args:
        candidates: pairs that tokens has.
        tokens: the texts.
        checkpoint: the ranker and its encoder.
        device: where to compute; a GPU computes BERT encoders in half precision.
        directory: where what finished parts give is kept; it must be of these very arguments.

    Returns:
        `qid docno score`, in the order of the candidates.

    Raises:
        FloatingPointError: a score is not finite.
        OutputError: the directory cannot be written.
    """
    ranker, encoder = checkpoint.ranker.to(device), checkpoint.encoder
    if device.type == "cuda":
        ranker.use_half_precision()
    queries = _Texts(tokens.queries(encoder), device)
    job = _Job(candidates, queries, _Texts(tokens.premises(encoder, candidates["docno"]), device), device, directory)
    scores = _by_vectors(ranker, job) if isinstance(ranker, SiameseRanker) else _by_pairs(ranker, job)
    result = candidates[["qid", "docno"]].assign(score=scores)
    faulty = result[~np.isfinite(result["score"])]
    if len(faulty):
        qid, docno = faulty["qid"].iloc[0], faulty["docno"].iloc[0]
        raise FloatingPointError(f"the score of argument {docno} for topic {qid} is not finite")
    return result


class _Texts:
    """Ids of texts by qid or docno, padded once, and put on the device in batches."""

    def __init__(self, texts: Mapping[str, Sequence[int] | np.ndarray], device: torch.device) -> None:
        self.ids, self._mask = pad(list(texts.values()))
        self.lengths = self._mask.sum(1).numpy()
        self._device = device
        self._numbers = {name: number for number, name in enumerate(texts)}

    def numbers(self, names: pd.Series) -> np.ndarray:
        """The numbers of texts in their order."""
        return names.map(self._numbers).to_numpy(dtype=int)

    def batch(self, numbers: np.ndarray) -> list[Tensor]:
        """Ids and mask of texts, as long as the longest of them."""
        longest, rows = self.lengths[numbers].max(initial=1), torch.from_numpy(numbers)
        return [tensor.index_select(0, rows)[:, :longest].to(self._device) for tensor in (self.ids, self._mask)]


@dataclass(frozen=True)
class _Job:
    """What to score, and where."""

    candidates: pd.DataFrame
    queries: _Texts
    premises: _Texts
    device: torch.device
    directory: Path

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers (candidates,) of their queries and of their premises."""
        return self.queries.numbers(self.candidates["qid"]), self.premises.numbers(self.candidates["docno"])

    def topics(self) -> list[np.ndarray]:
        """The row numbers of each topic's candidates."""
        return [np.asarray(rows) for rows in self.candidates.groupby("qid", sort=False).indices.values()]

    def size(self, ranker: Ranker) -> int:
        """Documents computed at a time."""
        return BATCH_ON_GPU if self.device.type == "cuda" else BATCH[ranker.form]


def _by_pairs(ranker: Ranker, job: _Job) -> np.ndarray:
    """Scores (candidates,) in batches of similar lengths: of one topic each, because word networks share what its documents
    have in common; of all topics for BERT networks, which share nothing.
    """
    query, premise = job.pairs()
    lengths = job.premises.lengths[premise]
    topic_by_topic = ranker.form == "words"
    with torch.inference_mode():
        scores = ranker.by_topic(job.queries.ids.to(job.device)) if topic_by_topic else ranker

    @torch.inference_mode()
    def compute(rows: np.ndarray) -> Tensor:
        queries = job.queries.batch(query[rows[:1]] if topic_by_topic else query[rows])
        return scores(*queries, *job.premises.batch(premise[rows])).cpu()

    groups = job.topics() if topic_by_topic else [np.arange(len(premise))]
    work = [rows[batch] for rows in groups for batch in batches(lengths[rows], job.size(ranker))]
    return _in_parts(work, compute, ranker, "pairs", job.directory)


def _by_vectors(ranker: SiameseRanker, job: _Job) -> np.ndarray:
    """Scores (candidates,), each distinct premise being read once for all topics."""

    @torch.inference_mode()
    def compute(rows: np.ndarray) -> Tensor:
        return ranker.represent_many(*job.premises.batch(rows)).cpu()

    vectors = _in_parts(batches(job.premises.lengths, job.size(ranker)), compute, ranker, "premises", job.directory)
    queries, premises = job.pairs()
    scores = np.empty(len(premises), dtype=np.float32)
    with torch.inference_mode():
        for rows in job.topics():
            query = ranker.represent(*job.queries.batch(queries[rows[:1]]))
            document = torch.from_numpy(vectors[premises[rows]]).to(job.device)
            scores[rows] = ranker.match(query.expand(len(rows), -1), document).cpu()
    return scores


def _in_parts(
    work: list[np.ndarray], compute: Callable[[np.ndarray], Tensor], ranker: Ranker, unit: str, directory: Path
) -> np.ndarray:
    """What compute gives for all rows (rows, …), float32; work is their numbers in batches."""
    parts: list[list[np.ndarray]] = []
    for rows in work:
        if not parts or sum(map(len, parts[-1])) >= PART[ranker.form]:
            parts.append([])
        parts[-1].append(rows)

    def computed(part: list[np.ndarray]) -> np.ndarray:
        return np.asarray(torch.cat([in_halves(compute, rows) for rows in part]), dtype=np.float32)

    sizes = [sum(map(len, part)) for part in parts]
    found = [
        kept(directory / f"part-{number:05}.npy", partial(computed, part))
        for number, part in enumerate(progress(parts, ranker.name(), unit, sizes))
    ]
    if not found:
        return np.empty(0, dtype=np.float32)
    values = np.empty((sum(sizes), *found[0].shape[1:]), dtype=np.float32)
    values[np.concatenate(work)] = np.concatenate(found)
    return values
