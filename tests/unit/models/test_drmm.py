"""Test that rounding moves no similarity of DRMM across the edge of a bin, which would change the histogram."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from submission.models.rankers.drmm import DRMM

WORDS = 3000


@torch.no_grad()
@pytest.mark.parametrize("size", [1, 7, 400])
def test_scores_equal_float64_for_any_batch(size: int) -> None:
    torch.manual_seed(0)
    drmm = DRMM(DRMM.Config(vocabulary=WORDS, dimensions=300)).eval()
    drmm.embedding.weight[2:] = torch.randn(WORDS - 2, 300)
    query, document = torch.randint(2, WORDS, (1, 5)).expand(400, -1), torch.randint(2, WORDS, (400, 100))
    expected = deepcopy(drmm).double()(query, query > 0, document, document > 0).float()
    assert expected.std() > 1e-3
    batches = zip(query.split(size), document.split(size), strict=True)
    scores = torch.cat([drmm(queries, queries > 0, batch, batch > 0) for queries, batch in batches])
    assert (scores - expected).abs().max() < 1e-6
