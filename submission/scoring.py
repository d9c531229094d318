"""Candidates × ranker → scores, in parts that are kept, so that a restarted execution goes on where it stopped."""

from __future__ import annotations

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
from submission.tokens import Tokens
from submission.work import kept

BATCH = {"words": 256, "bert": 32}  # pairs computed at a time
PART = 16  # batches whose scores are kept together: what a kill can cost


def score(
    candidates: pd.DataFrame, tokens: Tokens, checkpoint: Checkpoint, device: torch.device, directory: Path
) -> pd.DataFrame:
    """Score candidates `qid docno` with a ranker.

    Args:
        candidates: pairs that tokens has.
        tokens: the texts.
        checkpoint: the ranker and its encoder.
        device: where to compute.
        directory: where the scores of finished parts are kept; it must be of these very arguments.

    Returns:
        `qid docno score`, in the order of the candidates.

    Raises:
        FloatingPointError: a score is not finite.
        OutputError: the directory cannot be written.
    """
    ranker, encoder = checkpoint.ranker.to(device), checkpoint.encoder
    queries, premises = tokens.queries(encoder), tokens.premises(encoder, candidates["docno"])
    pairs = list(zip(candidates["qid"], candidates["docno"], strict=True))

    @torch.inference_mode()
    def batch(rows: np.ndarray) -> Tensor:
        query = pad([queries[pairs[row][0]] for row in rows])
        document = pad([premises[pairs[row][1]] for row in rows])
        scores: Tensor = ranker(*(tensor.to(device) for tensor in (*query, *document)))
        return scores.cpu()

    def computed(part: list[np.ndarray]) -> np.ndarray:
        return np.asarray(torch.cat([in_halves(batch, rows) for rows in part]), dtype=np.float32)

    scores = np.empty(len(pairs), dtype=np.float32)
    order = batches([len(premises[docno]) for _, docno in pairs], BATCH[ranker.form])
    parts = [order[start : start + PART] for start in range(0, len(order), PART)]
    for number, part in enumerate(progress(parts, ranker.name(), "pairs", [sum(map(len, part)) for part in parts])):
        scores[np.concatenate(part)] = kept(directory / f"part-{number:05}.npy", partial(computed, part))
    result = candidates[["qid", "docno"]].assign(score=scores)
    if not np.isfinite(scores).all():
        qid, docno = pairs[int(np.argmin(np.isfinite(scores)))]
        raise FloatingPointError(f"the score of argument {docno} for topic {qid} is not finite")
    return result
