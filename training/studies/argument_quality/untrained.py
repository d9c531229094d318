"""The untrained encoder as a baseline: a ridge regression on the mean vector of an argument's pieces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from msgspec.structs import replace
from sklearn.linear_model import RidgeCV

from submission.rankers.base import DenseRanker
from submission.retrieval.dense import encoded
from training.fitting.network import build
from training.fitting.settings import PretrainedEncoder
from training.quality.listwise import dense_ranks
from training.tasks import read_recipe

PENALTIES = tuple(10.0**power for power in range(-3, 4))  # of which leaving one argument out chooses


def vectors(texts: Sequence[str], encoder: PretrainedEncoder, device: torch.device) -> np.ndarray:
    """The vectors (texts, dimensions) float64 that an encoder makes as it comes. Raises CheckpointError: there is none."""
    trainee = build(replace(read_recipe("sbert"), encoder=encoder), Path(), Path())
    ranker = trainee.network.to(device).eval()
    assert isinstance(ranker, DenseRanker)
    return encoded([trainee.reader.premise(text) for text in texts], ranker, device).astype(np.float64)


def ridge(found: np.ndarray, table: pd.DataFrame, train: np.ndarray) -> np.ndarray:
    """Scores (rows,) of arguments by their vectors (rows, dimensions), learned from the dense ranks of those in `train`.

    A rank is divided by the largest of its list, as lists are of all lengths.
    """
    ranks = table.groupby(["data", "topic"])["score"].transform(lambda own: dense_ranks(own.to_numpy()) / own.nunique())
    scores: np.ndarray = RidgeCV(PENALTIES).fit(found[train], ranks.to_numpy()[train]).predict(found)
    return scores
