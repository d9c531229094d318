"""Topics × documents × checkpoint → scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from submission.disk.kept import Kept
from submission.errors import CheckpointError
from submission.scoring.batches import PaddedPairs
from submission.scoring.checkpoint import Checkpoint
from submission.scoring.pairs import score_pairs
from submission.scoring.tokens import Tokens


def score(pairs: pd.DataFrame, tokens: Tokens, checkpoint: Checkpoint, device: torch.device, kept: Kept) -> np.ndarray:
    """The scores (N,) float32 of pairs of topics and documents.

    Args:
        pairs: `qid docno`, which tokens has.
        tokens: the texts.
        checkpoint: the network and its tokeniser.
        device: where to compute; a GPU computes BERT encoders in half precision.
        kept: where the scores of finished parts are kept; it must be of these very arguments.

    Raises:
        CheckpointError: a score is not finite.
        OutputError: that place cannot be written.
    """
    ranker, tokeniser = checkpoint.ranker.to(device), checkpoint.tokeniser
    if device.type == "cuda":
        ranker.use_precision(torch.float16)
    names = zip(pairs["qid"], pairs["docno"], strict=True)
    padded = PaddedPairs.of(names, tokens.queries(tokeniser), tokens.premises(tokeniser, pairs["docno"]))
    scores = score_pairs(ranker, padded, device, kept)
    faulty = pairs[~np.isfinite(scores)]
    if len(faulty):
        qid, docno = faulty["qid"].iloc[0], faulty["docno"].iloc[0]
        name = ranker.name()
        raise CheckpointError(f"{name}: the score of argument {docno} for topic {qid} is not finite; train the network again")
    return scores
