"""Validation by search: what a sparse network finds for validation queries among all premises, not among 105."""

from __future__ import annotations

import numpy as np
import torch

from submission.rankers.base import LatentRanker
from submission.scoring.batches import Padded, batches
from training.data.split import RELATED
from training.data.tables import Queries
from training.fitting.validation import evaluating

BATCH = 2048  # premises computed at a time: the more, the more often a word is met again
FOUND, SHOWN = 100, 10  # the depths of recall and nDCG
RECALL, NDCG = f"recall@{FOUND} of all", f"nDCG@{SHOWN} of all"


@torch.inference_mode()
def search(
    ranker: LatentRanker, queries: Queries, chosen: np.ndarray, others: Padded, device: torch.device
) -> dict[str, float]:
    """Recall at 100 and nDCG at 10, in percent, means over the queries, whose own 5 premises are the relevant ones.

    Args:
        ranker: finds the premises whose dot product with the query is above 0.
        queries: with their premises.
        chosen: the numbers of some queries.
        others: the premises of training, searched beside all of the validation.
        device: computes.

    A premise that scores as high as others comes behind them.
    """
    with evaluating(ranker):
        own = ranker.represent(*queries.queries.take(chosen, device))  # (Q, latent)
        scores = torch.cat([_scores(ranker, own, texts, device) for texts in (queries.premises, others)], 1).cpu().numpy()
    related = np.take_along_axis(scores, queries.candidates[chosen][:, :RELATED], axis=1)  # (Q, 5)
    places = np.array([np.searchsorted(np.sort(-row), -values, "right") for row, values in zip(scores, related, strict=True)])
    places = np.where(related > 0, places, np.inf)  # counted from 1
    gains = np.where(places <= SHOWN, 1 / np.log2(places + 1), 0).sum(1)
    best = (1 / np.log2(np.arange(RELATED) + 2)).sum()
    return {
        NDCG: round(100 * float((gains / best).mean()), 2),
        RECALL: round(100 * float((places <= FOUND).mean()), 2),
    }


def _scores(ranker: LatentRanker, own: torch.Tensor, texts: Padded, device: torch.device) -> torch.Tensor:
    """Scores (Q, N) of queries' vectors (Q, latent) with texts."""
    scores = own.new_empty(len(own), len(texts.lengths))
    for rows in batches(texts.lengths.numpy(), BATCH):
        scores[:, torch.from_numpy(rows).to(device)] = own @ ranker.represent_many(*texts.take(rows, device)).t()
    return scores
