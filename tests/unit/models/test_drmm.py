"""DRMM: rounding must not move a similarity across a bin edge, where the histogram jumps."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from submission.models.rankers.drmm import DRMM

WORDS = 3000


@pytest.fixture
def drmm() -> DRMM:
    torch.manual_seed(0)
    network = DRMM(DRMM.Config(vocabulary=WORDS, dimensions=300)).eval()
    network.embedding.weight.data[2:] = torch.randn(WORDS - 2, 300)
    return network


@torch.no_grad()
@pytest.mark.parametrize("size", [1, 7, 400])
def test_scores_equal_float64_for_any_batch(drmm: DRMM, size: int) -> None:
    query, document = torch.randint(2, WORDS, (1, 5)).expand(400, -1), torch.randint(2, WORDS, (400, 100))
    expected = deepcopy(drmm).double()(query, query > 0, document, document > 0).float()
    assert expected.std() > 1e-3
    batches = zip(query.split(size), document.split(size), strict=True)
    scores = torch.cat([drmm(queries, queries > 0, batch, batch > 0) for queries, batch in batches])
    assert (scores - expected).abs().max() < 1e-6


@torch.no_grad()
def test_similarity_lookup_across_topics(drmm: DRMM) -> None:
    queries, document = torch.tensor([[2, 9, 0], [1, 9, 700], [0, 0, 0]]), torch.randint(1, WORDS, (6, 12))
    score = drmm.prepare_queries(queries)
    for query in queries[:, None]:
        expected = drmm(query.expand(6, -1), query.expand(6, -1) > 0, document, document > 0)
        assert (score(query, query > 0, document, document > 0) - expected).abs().max() < 1e-6
