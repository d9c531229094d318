from __future__ import annotations

import numpy as np
import pytest

from submission.fusion.quality import QualityInterpolation


def test_scores_match_hand_computed_values() -> None:
    scores = QualityInterpolation("1", 3, 0.5).score(np.array([9.0, 6, 3, 2.5, 1]), np.array([0.0, 0, 3]))
    high, low = 3 / np.sqrt(6), np.sqrt(2) / 2  # z of 9 among 9, 6, 3; minus z of 0 among 0, 0, 3
    first = [high - low / 2, -low / 2, -high + low]
    assert scores.tolist() == pytest.approx([*first, min(first) - 1.5, min(first) - 3])
