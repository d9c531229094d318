"""Tests of DeepCT's labels, document sets, targets and metrics, and of the reader of topics."""

from __future__ import annotations

import numpy as np
import pytest

from submission.errors import InputError
from submission.text.index_terms import TermAnalyser
from training.data.term_weighting import find_matching_words
from training.evaluation.term_weighting import LabelledWords, compute_term_weighting_metrics

# The conclusion of Hollatz 2022, table 3.3, with a passage that has the same relevant words.
REFERENCE = "Domestic Violence Awareness should be increased"
PASSAGE = (
    "Awareness of domestic violence is low. To increase it is a duty: shelters report an increasing number of calls, and "
    "should that not be enough? Violence at home, DOMESTIC violence, is not a private matter."
)


@pytest.mark.parametrize(
    ("passage", "reference", "expected"),
    [
        (PASSAGE, REFERENCE, ["awareness", "domestic", "increase", "increasing", "violence"]),
        (PASSAGE, "", []),
        ("the should be", "The should be", []),
        ("women's rights, women-only", "Women’s right", ["rights", "women"]),
        ("naïve 東京 x1", "Naïve, 東京: X1", ["naïve", "x1", "東京"]),
    ],
)
def test_matching_words_equal_those_of_hollatz_table_3_3(passage: str, reference: str, expected: list[str]) -> None:
    assert find_matching_words(passage, reference, TermAnalyser("porter")) == expected


def test_metrics_match_hand_computed_values() -> None:
    passages = [
        LabelledWords(["a", "b", "a", "c"], np.array([1.0, 0, 1, 0])),
        LabelledWords(["d", "e"], np.array([0.0, 0])),
        LabelledWords(["f", "g", "h"], np.array([1.0, 0, 1])),
    ]
    weights = [np.array([0.0, 0.5, 0.5, 0.1]), np.array([0.0, 0.0]), np.array([0.9, 0.95, 0.2])]
    # First passage: a ties with b and precedes it: 1. Third: g f h, precision 1/2 and 2/3.
    squares = 1 + 0.25 + 0.25 + 0.01 + 0.01 + 0.9025 + 0.64
    expected = {
        "R²": 100 * (1 - squares / (9 * (4 / 9) * (5 / 9))),
        "MAP": 100 * (1 + (1 / 2 + 2 / 3) / 2) / 2,
        "Rprec": 100 * (1 + 1 / 2) / 2,
    }
    assert compute_term_weighting_metrics(passages, weights) == pytest.approx(expected, abs=0.01)
    with pytest.raises(InputError, match="all words of the 1 validation passages have the same label"):
        compute_term_weighting_metrics(passages[1:2], weights[1:2])
