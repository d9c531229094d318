"""Topics × documents × checkpoint → scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from submission.disk.kept import Kept
from submission.engine.engine import HERE, Engine
from submission.errors import CheckpointError
from submission.scoring.batches import PaddedPairs
from submission.scoring.checkpoint import Checkpoint
from submission.scoring.pairs import score_in_parts
from submission.scoring.tokens import Tokens


def score(
    pairs: pd.DataFrame, tokens: Tokens, checkpoint: Checkpoint, device: torch.device, kept: Kept, engine: Engine = HERE
) -> np.ndarray:
    """The scores (N,) float32 of pairs of topics and documents.

    Args:
        pairs: `qid docno`, which tokens has.
        tokens: the texts.
        checkpoint: the network and its tokeniser.
        device: where to compute.
        kept: where the scores of finished parts are kept; it must be of these very arguments.
        engine: where the parts are computed.

    Raises:
        CheckpointError: a score is not finite.
        OutputError: that place cannot be written.
    """
    tokeniser = checkpoint.tokeniser
    names = zip(pairs["qid"], pairs["docno"], strict=True)
    padded = PaddedPairs.of(names, tokens.queries(tokeniser), tokens.premises(tokeniser, pairs["docno"]))
    scores = score_in_parts(checkpoint, padded, device, kept, engine)
    faulty = pairs[~np.isfinite(scores)]
    if len(faulty):
        qid, docno = faulty["qid"].iloc[0], faulty["docno"].iloc[0]
        name = checkpoint.ranker.name()
        raise CheckpointError(f"{name}: the score of argument {docno} for topic {qid} is not finite; train the network again")
    return scores
