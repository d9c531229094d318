"""Candidates × ranker → scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from submission.checkpoint import Checkpoint
from submission.encoding import pad
from submission.progress import progress

BATCH = {"words": 256, "bert": 32}  # pairs computed at a time


def score(
    candidates: pd.DataFrame, topics: pd.DataFrame, corpus: pd.DataFrame, checkpoint: Checkpoint, device: torch.device
) -> pd.DataFrame:
    """Score candidates `qid docno` with a ranker.

    Args:
        candidates: pairs; every qid is in topics, every docno in corpus.
        topics: `qid query`.
        corpus: `docno premise`.
        checkpoint: the ranker and its encoder.
        device: where to compute.

    Returns:
        `qid docno score`, in the order of the candidates.

    Raises:
        FloatingPointError: a score is not finite.
    """
    ranker, encoder = checkpoint.ranker.to(device), checkpoint.encoder
    queries = {qid: encoder.query(query) for qid, query in zip(topics["qid"], topics["query"], strict=True)}
    wanted = corpus[corpus["docno"].isin(set(candidates["docno"]))]
    premises = {docno: encoder.premise(text) for docno, text in zip(wanted["docno"], wanted["premise"], strict=True)}

    pairs = list(zip(candidates["qid"], candidates["docno"], strict=True))
    scores = np.empty(len(pairs), dtype=np.float32)
    batches = list(_batches([len(premises[docno]) for _, docno in pairs], BATCH[checkpoint.ranker.form]))
    for rows in progress(batches, checkpoint.ranker.name(), "pairs", [len(rows) for rows in batches]):
        query = pad([queries[pairs[row][0]] for row in rows])
        document = pad([premises[pairs[row][1]] for row in rows])
        with torch.inference_mode():
            scores[rows] = ranker(*(tensor.to(device) for tensor in (*query, *document))).cpu().numpy()
    result = candidates[["qid", "docno"]].assign(score=scores)
    if not np.isfinite(scores).all():
        qid, docno = pairs[int(np.argmin(np.isfinite(scores)))]
        raise FloatingPointError(f"the score of argument {docno} for topic {qid} is not finite")
    return result


def _batches(lengths: list[int], size: int) -> Iterator[np.ndarray]:
    """Rows in batches of similar length, a function of the candidates alone: a resumed run sees the same ones."""
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), size):
        yield order[start : start + size]
