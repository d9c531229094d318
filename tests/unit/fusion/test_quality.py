from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.fusion.quality import QualityInterpolation

VALUES = st.lists(st.floats(-100, 100, width=16), min_size=1, max_size=12).map(np.array)


def test_scores_match_hand_computed_values() -> None:
    scores = QualityInterpolation("1", 3, 0.5).score(np.array([9.0, 6, 3, 2.5, 1]), np.array([0.0, 0, 3]))
    high, low = 3 / np.sqrt(6), np.sqrt(2) / 2  # z of 9 among 9, 6, 3; minus z of 0 among 0, 0, 3
    first = [high - low / 2, -low / 2, -high + low]
    assert scores.tolist() == pytest.approx([*first, min(first) - 1.5, min(first) - 3])


@given(VALUES, VALUES, st.floats(0, 5))
def test_lower_ranked_documents_keep_their_order(relevance: np.ndarray, quality: np.ndarray, weight: float) -> None:
    relevance = -np.sort(-relevance)
    n = min(len(relevance), len(quality))
    scores = QualityInterpolation("1", n, weight).score(relevance, quality[:n])
    assert len(scores) == len(relevance)
    assert np.isfinite(scores).all()
    assert (scores[n:] <= scores[:n].min() - 1).all()
    np.testing.assert_allclose(np.diff(scores[n:]), np.diff(relevance[n:]))
    if weight == 0:
        assert (np.diff(scores) <= 0).all()
