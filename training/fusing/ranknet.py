"""RankNet: a small network that learns from pairs of documents which of the two is the better one (Burges et al. 2005)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from submission.errors import TrainingError
from training.fusing.fitting import Labelled
from training.fusing.recipe import RankNet


@dataclass(frozen=True)
class Layers:
    """A fitted network."""

    layers: nn.Module

    @torch.inference_mode()
    def scores(self, features: np.ndarray) -> np.ndarray:
        """The scores (N,) of standardised features (N, F)."""
        return np.asarray(self.layers(torch.from_numpy(features)).squeeze(1))


def ranknet(labelled: Labelled, settings: RankNet, seed: int) -> Layers:
    """The network under which the better documents are the most likely to come first.

    Documents i and j of a topic come in this order with the probability 1 / (1 + exp(s_j - s_i)) (eq. 3 there);
    the loss is the mean of its negative logarithms over all pairs whose first document has the larger label.

    Raises:
        TrainingError: no topic has two documents with different labels.
    """
    above = labelled.labels[:, None] > labelled.labels
    same = labelled.topics[:, None] == labelled.topics
    better, worse = map(torch.from_numpy, np.nonzero(above & same))  # (pairs,) each
    if not len(better):
        raise TrainingError("no topic has two documents with different labels; are these its qrels?")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = _layers(labelled.features.shape[1], settings.hidden)
    features = torch.from_numpy(labelled.features)
    optimiser = torch.optim.Adam(layers.parameters(), settings.learning_rate, weight_decay=settings.decay)
    for _ in range(settings.steps):
        optimiser.zero_grad()
        scores = layers(features).squeeze(1)
        loss = -functional.logsigmoid(scores[better] - scores[worse]).mean()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own lack
        optimiser.step()
    return Layers(layers)


def _layers(features: int, hidden: int) -> nn.Module:
    """In double precision, as the features are; without hidden units a weighted sum."""
    last = nn.Linear(hidden or features, 1, bias=False)  # which no difference of scores would tell of
    return (nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), last) if hidden else last).double()
