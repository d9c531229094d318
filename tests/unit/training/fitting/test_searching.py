from __future__ import annotations

from math import log2

import numpy as np
import pytest
import torch
from torch import Tensor

from submission.rankers.snrm import SNRM
from submission.scoring.batches import Padded
from training.data.tables import Queries
from training.fitting.searching import search

CPU = torch.device("cpu")


class Given(SNRM):
    """A network whose latent vectors are given: of the text [n] the row n."""

    def __init__(self, rows: list[list[float]]) -> None:
        super().__init__(SNRM.Config(2, 2, latent=2))
        self.rows = torch.tensor(rows)

    def represent(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.rows[ids[:, 0]]

    def represent_many(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.represent(ids, mask)


def texts(first: int, last: int) -> Padded:
    return Padded.of([[number] for number in range(first, last)])


def test_places_are_among_the_premises_of_training_too() -> None:
    own = [[1.0, 0], [0.9, 0], [0.8, 0], [0.7, 0], [0, 1.0]]  # the last shares no latent term with the query
    others = [[0.85, 0], [0.7, 0], *([[0.75, 0]] * 7)]  # and the fourth scores as high as one of these
    ranker = Given([[1.0, 0], *own, *others])
    queries = Queries(texts(0, 1), texts(1, 6), np.arange(5)[None], np.arange(5), [], [])
    found = search(ranker, queries, np.array([0]), texts(6, 15), CPU)
    ideal = sum(1 / log2(place + 1) for place in range(1, 6))
    gains = sum(1 / log2(place + 1) for place in (1, 2, 4))  # the fourth is at 13
    assert found == {"nDCG@10 of all": pytest.approx(100 * gains / ideal, abs=0.005), "recall@100 of all": 80}


def test_some_queries() -> None:
    ranker = Given([[1.0, 0], [0, 1.0], *([[1.0, 0]] * 5), *([[0, 1.0]] * 5)])
    queries = Queries(texts(0, 2), texts(2, 12), np.array([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]), np.arange(10), [], [])
    assert search(ranker, queries, np.array([0, 1]), texts(2, 3), CPU)["recall@100 of all"] == 50
    assert search(ranker, queries, np.array([1]), texts(2, 3), CPU) == {"nDCG@10 of all": 0, "recall@100 of all": 0}
