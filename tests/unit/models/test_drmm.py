"""DRMM: rounding must not move a similarity across a bin edge, where the histogram jumps."""

from __future__ import annotations

from copy import deepcopy

import torch

from submission.models.rankers.drmm import DRMM

WORDS, QUERY, LENGTH = 3000, 5, 100


def network() -> DRMM:
    torch.manual_seed(0)
    drmm = DRMM(DRMM.Config(vocabulary=WORDS, dimensions=300)).eval()
    drmm.embedding.weight[2:] = torch.randn(WORDS - 2, 300)
    return drmm


@torch.no_grad()
def test_scores_equal_float64_for_any_batch() -> None:
    drmm = network()
    exact = deepcopy(drmm).double()
    query, document = torch.randint(2, WORDS, (1, QUERY)), torch.randint(2, WORDS, (400, LENGTH))

    def scores(of: DRMM, part: torch.Tensor) -> torch.Tensor:
        queries = query.expand(len(part), -1)
        return of(queries, queries > 0, part, part > 0)

    expected = scores(exact, document).float()
    assert expected.std() > 1e-3
    for size in (1, 7, 400):
        actual = torch.cat([scores(drmm, part) for part in torch.split(document, size)])
        assert (actual - expected).abs().max() < 1e-6
    actual = drmm.prepare_queries(query)(query, query > 0, document, document > 0)
    assert (actual - expected).abs().max() < 1e-6


@torch.no_grad()
def test_similarity_lookup_across_topics() -> None:
    drmm = network()
    queries, document = torch.tensor([[2, 9, 0], [1, 9, 700], [0, 0, 0]]), torch.randint(1, WORDS, (6, 12))
    score = drmm.prepare_queries(queries)
    for query in queries[:, None]:
        expected = drmm(query.expand(6, -1), query.expand(6, -1) > 0, document, document > 0)
        assert (score(query, query > 0, document, document > 0) - expected).abs().max() < 1e-6
