"""Baseline: ridge regression on the pretrained encoder's mean-pooled embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from msgspec.structs import replace
from sklearn.linear_model import RidgeCV

from submission.models.ranker import DenseRanker
from submission.retrieval.dense import encode_texts
from training.fitting.initialisation import build_network
from training.fitting.listwise import dense_ranks
from training.fitting.recipe import EncoderSettings
from training.tasks import load_recipe

RIDGE_ALPHAS = tuple(10.0**power for power in range(-3, 4))  # selected by leave-one-out cross-validation


def embed_arguments(texts: Sequence[str], encoder: EncoderSettings, device: torch.device) -> np.ndarray:
    """Embed texts with the pretrained encoder (texts, dimensions) float64."""
    trainee = build_network(replace(load_recipe("sbert"), encoder=encoder), Path(), Path())
    ranker = trainee.network.to(device).eval()
    assert isinstance(ranker, DenseRanker)
    return encode_texts([trainee.tokeniser.encode_premise(text) for text in texts], ranker, device).astype(np.float64)


def score_by_ridge(embeddings: np.ndarray, table: pd.DataFrame, train_mask: np.ndarray) -> np.ndarray:
    """Fit ridge regression on the training arguments' dense ranks and score all arguments (rows,).

    Ranks are divided by the topic's maximum, as topics differ in size.
    """
    by_topic = table.groupby(["data", "topic"])["score"]
    ranks = by_topic.transform(lambda grades: dense_ranks(grades.to_numpy()) / grades.nunique())
    scores: np.ndarray = RidgeCV(RIDGE_ALPHAS).fit(embeddings[train_mask], ranks.to_numpy()[train_mask]).predict(embeddings)
    return scores
