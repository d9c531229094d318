"""Tests of training lists, MarginMSE and validation metrics against values by hand."""

from math import log2

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import rankdata

from aragorn.models.network import PaddedTexts
from aragorn.models.rankers.snrm import SNRM
from aragorn_training.data.pair_tables import ValidationQueries
from aragorn_training.data.quality import COLUMNS
from aragorn_training.fitting.listwise import (
    MARGIN_MSE,
    build_ranked_lists,
    compute_dense_ranks,
    stratify,
)
from aragorn_training.fitting.validation import measure_candidates, measure_full_collection


def test_margin_mse_matches_hand_computed_value():
    labels = torch.tensor([[1.5, 0, 0.5, -1], [2, 2, 1, -1]])
    scores = torch.tensor([[3.0, 1, 2, 9], [0, 1, 0, 9]])
    # pairs with different labels only
    squares = [(1.5 - 2) ** 2, (1 - 1) ** 2, (0.5 - 1) ** 2, (1 - 0) ** 2, (1 - 1) ** 2]
    assert MARGIN_MSE(labels, scores) == pytest.approx(sum(squares) / 5)
    assert MARGIN_MSE(labels, labels + 7) == 0


@pytest.mark.parametrize(("count", "size"), [(1, 2), (12, 4), (13, 4), (60, 13), (59, 2)])
def test_stratify_spreads_neighbours_over_all_lists(count, size):
    scores = np.random.default_rng(count).integers(-5, 30, count).astype(float)
    lists = stratify(scores, size)
    assert len(lists) == -(-len(scores) // size)
    assert sorted(np.concatenate(lists).tolist()) == list(range(len(scores)))
    sizes = [len(items) for items in lists]
    ordered = np.sort(scores)
    assert max(sizes) - min(sizes) <= 1
    for index in range(min(sizes)):
        neighbours = ordered[index * len(lists) : (index + 1) * len(lists)]
        assert sorted(scores[items[index]] for items in lists) == neighbours.tolist()
    assert compute_dense_ranks(scores).tolist() == rankdata(scores, method="dense").tolist()


RANKED_TOPICS = [("ukp", "a", [0.5, -1.0, 0.5, 7.0, 3.0]), ("ibm", "a", [2.0, 1.0])]
RANKED_TOPICS.append(("ukp", "b", [1.0, 1.0, 1.0]))
ROWS = [[1, 2, 3], [0, 4, -1], [6, 5, -1], [7, 8, 9]]


@pytest.mark.parametrize(("scope", "loss", "labels"), [
    ("list", "softmax", [[1, 2, 3], [1, 2, -1], [1, 2, -1], [1, 1, 1]]),
    ("topic", "softmax", [[1, 2, 4], [2, 3, -1], [1, 2, -1], [1, 1, 1]]),
    ("list", "mse", [[1 / 3, 2 / 3, 1], [0.5, 1, -1], [0.5, 1, -1], [1, 1, 1]]),
    ("list", "pointwise", [[0, 3 / 16, 1], [3 / 16, 0.5, -1], [0, 1, -1], [0.25, 0.25, 0.25]]),
    ("topic", "mse", [[0.25, 0.5, 1], [0.5, 0.75, -1], [0.5, 1, -1], [1, 1, 1]]),
])  # fmt: skip
def test_lists_stay_within_topics_and_have_labels(scope, loss, labels):
    rows = [
        (data, topic, topic, f"{n}", "", score)
        for data, topic, scores in RANKED_TOPICS
        for n, score in enumerate(scores)
    ]
    lists = build_ranked_lists(pd.DataFrame(rows, columns=COLUMNS), 3, scope, loss)
    assert lists.rows.tolist() == ROWS
    np.testing.assert_allclose(lists.labels, labels, rtol=1e-6)


CPU = "cpu"
DISCOUNTS = [1 / log2(rank + 1) for rank in range(1, 21)]
TIES = np.arange(105)


def build_scores(*ranks):
    """Build the scores of one query that rank its 5 positives (first columns) at `ranks` of 105."""
    order = list(range(5, 105))
    for rank, document in sorted(zip(ranks, range(5), strict=True)):
        order.insert(rank - 1, document)
    values = np.empty(105)
    values[order] = np.arange(105, 0, -1)
    return values


MIXED_NDCG = 100 * (DISCOUNTS[1] + DISCOUNTS[4] + DISCOUNTS[19]) / sum(DISCOUNTS[:5])


@pytest.mark.parametrize(("values", "ties", "expected"), [  # MRR@20, MAP@20 and nDCG@20
    ([build_scores(2, 5, 20, 21, 80)], [TIES], (50, 100 * (1 / 2 + 2 / 5 + 3 / 20) / 5, MIXED_NDCG)),
    ([build_scores(1, 2, 3, 4, 5), build_scores(21, 22, 23, 24, 25)], [TIES, TIES], (50, 50, 50)),
    ([np.zeros(105)], [TIES[::-1]], (0, 0, 0)),  # ties follow the tie order, not relevance
    ([np.zeros(105)], [TIES], (100, 100, 100)),
])  # fmt: skip
def test_candidate_metrics_match_hand_computed_values(values, ties, expected):
    metrics = measure_candidates(np.stack(values), np.stack(ties))
    assert metrics == pytest.approx(
        dict(zip(("MRR@20", "MAP@20", "nDCG@20"), expected, strict=True)), abs=0.005
    )


class LookupNetwork(SNRM):
    """A network that encodes the text [n] as row n of a table."""

    def __init__(self, rows):
        super().__init__(SNRM.Config(2, 2, latent=2))
        self.rows = torch.tensor(rows)

    def encode(self, ids, mask):
        return self.rows[ids[:, 0]]

    encode_batch = encode


X = [1.0, 0]
Y = [0, 1.0]
POSITIVES = [X, [0.9, 0], [0.8, 0], [0.7, 0], Y]  # the last shares no latent term with the query
# the second ties with the fourth positive, at rank 13
TRAINING = [[0.85, 0], [0.7, 0], *([[0.75, 0]] * 7)]


# queries, premises, training premises
@pytest.mark.parametrize(("vectors", "counts", "query_rows", "ndcg", "recall"), [
    ([X, *POSITIVES, *TRAINING], (1, 5, 9), [0], (DISCOUNTS[0] + DISCOUNTS[1] + DISCOUNTS[3]) / sum(DISCOUNTS[:5]), 80),
    # five tied positives have rank 5; the second query retrieves none of its candidates
    ([X, Y, *[X] * 5, *[Y] * 6], (2, 10, 1), [0, 1], 2.5 * DISCOUNTS[4] / sum(DISCOUNTS[:5]), 50),
    ([X, Y, *[X] * 5, *[Y] * 6], (2, 10, 1), [1], 0, 0),
])  # fmt: skip
def test_full_collection_includes_training_premises(vectors, counts, query_rows, ndcg, recall):
    rows = iter(range(len(vectors)))
    query_texts, premises, training = (
        PaddedTexts.from_ids([[next(rows)] for _ in range(count)]) for count in counts
    )
    candidates = np.tile(np.arange(5), (counts[0], 1))
    queries = ValidationQueries(query_texts, premises, candidates, np.arange(counts[1]), [], [], [])
    metrics = measure_full_collection(
        LookupNetwork(vectors), queries, np.array(query_rows), training, CPU
    )
    assert [*metrics.values()] == pytest.approx([100 * ndcg, recall], abs=0.005)
