from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from submission.errors import InputError
from training.quality.lists import dense_ranks, lists_of, stratified
from training.quality.tables import COLUMNS, place, quality_table
from training.quality.validation import correlations, macro
from training.tasks.lists import Lists

SCORES = st.lists(st.integers(-5, 30), min_size=1, max_size=60).map(lambda values: np.array(values, dtype=float))


def table(*topics: tuple[str, str, list[float]]) -> pd.DataFrame:
    """Topics of data sets, and the quality of their arguments."""
    rows = [(data, topic, topic, f"{data}-{topic}-{n}", "", score) for data, topic, s in topics for n, score in enumerate(s)]
    return pd.DataFrame(rows, columns=COLUMNS)


@given(SCORES, st.integers(2, 13))
def test_each_item_is_in_one_list_and_each_list_has_one_of_all_neighbours(scores: np.ndarray, size: int) -> None:
    lists = stratified(scores, size)
    assert len(lists) == -(-len(scores) // size)
    assert sorted(np.concatenate(lists).tolist()) == list(range(len(scores)))
    sizes = [len(items) for items in lists]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    ordered = np.sort(scores)
    for place_ in range(min(sizes)):
        slices = ordered[place_ * len(lists) : (place_ + 1) * len(lists)]
        assert sorted(scores[items[place_]] for items in lists) == slices.tolist()


@given(SCORES)
def test_ranks_are_dense(scores: np.ndarray) -> None:
    ranks = dense_ranks(scores)
    assert ranks.tolist() == rankdata(scores, method="dense").tolist()
    assert set(ranks) == set(range(1, len(set(scores)) + 1))


TOPICS = table(("ukp", "a", [0.5, -1.0, 0.5, 7.0, 3.0]), ("ibm", "a", [2.0, 1.0]), ("ukp", "b", [1.0, 1.0, 1.0]))


def labelled(settings: Lists) -> list[dict[int, float]]:
    """The labels of each list by row."""
    found = lists_of(TOPICS, settings.size, settings.labels, settings.loss)
    return [
        dict(zip(rows[rows >= 0].tolist(), labels[rows >= 0].tolist(), strict=True))
        for rows, labels in zip(found.rows, found.labels, strict=True)
    ]


def test_lists_are_of_one_topic_of_one_data_set_and_padded() -> None:
    found = lists_of(TOPICS, 3, "list", "softmax")
    assert found.rows.tolist() == [[1, 2, 3], [0, 4, -1], [5 + 1, 5, -1], [7, 8, 9]]
    assert found.labels.tolist() == [[1, 2, 3], [1, 2, -1], [1, 2, -1], [1, 1, 1]]


def test_labels_of_lists_of_topics_and_for_squared_errors() -> None:
    assert labelled(Lists(("ukp",), 3, "topic")) == [{1: 1, 2: 2, 3: 4}, {0: 2, 4: 3}, {6: 1, 5: 2}, {7: 1, 8: 1, 9: 1}]
    third = pytest.approx(1 / 3)
    shares = labelled(Lists(("ukp",), 3, "list", "mse"))
    assert shares == [{1: third, 2: pytest.approx(2 / 3), 3: 1}, {0: 0.5, 4: 1}, {6: 0.5, 5: 1}, {7: 1, 8: 1, 9: 1}]
    shares = labelled(Lists(("ukp",), 3, "topic", "mse"))
    assert shares[:2] == [{1: 0.25, 2: 0.5, 3: 1}, {0: 0.5, 4: 0.75}]


def test_correlations() -> None:
    found = correlations(np.array([1.0, 2, 2, 4]), np.array([10.0, 30, 20, 900]))
    assert found["Pearson"] == pytest.approx(np.corrcoef([1, 2, 2, 4], [10, 30, 20, 900])[0, 1])
    assert found["Spearman"] == pytest.approx(np.corrcoef([1, 2.5, 2.5, 4], [1, 3, 2, 4])[0, 1])
    assert found["Kendall"] == pytest.approx(5 / np.sqrt(5 * 6))
    assert set(correlations(np.array([1.0, 2]), np.zeros(2)).values()) == {0.0}


def test_means_are_over_topics() -> None:
    two = table(("ukp", "a", [1.0, 2, 3, 4]), ("ukp", "b", [1.0, 2]))
    found = macro(two, np.array([1.0, 2, 3, 4, 5, 0]))
    assert found == {"Pearson": 0.0, "Spearman": 0.0, "Kendall": 0.0}
    assert macro(two, np.array([0.0, 0, 0, 0, 0, 5]))["Spearman"] == 50
    with pytest.raises(InputError, match="ukp, topic 'b': no two arguments of different quality"):
        macro(TOPICS, np.arange(10.0))


def test_a_table_that_is_not_there_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"quality/ukp.parquet: missing; `python -m training prepare lists -i DIR --work"):
        quality_table(tmp_path, "ukp")
    file = place(tmp_path, "ukp")
    file.parent.mkdir()
    file.write_bytes(b"PAR1 garbage")
    with pytest.raises(InputError, match=r"ukp.parquet: damaged .* run `python -m training prepare lists` again"):
        quality_table(tmp_path, "ukp")
    TOPICS.drop(columns="debate").to_parquet(file)
    with pytest.raises(InputError, match="damaged"):
        quality_table(tmp_path, "ukp")
    TOPICS.to_parquet(file)
    pd.testing.assert_frame_equal(quality_table(tmp_path, "ukp"), TOPICS)
