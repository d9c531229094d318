from __future__ import annotations

from math import log2
from pathlib import Path

import pandas as pd
import pytest

from submission.errors import InputError
from tests.conftest import REAL, argument
from training.evaluate import evaluate, read_qrels, read_run, table

QRELS = """1 0 a 2
1 0 b 0
1 0 c 1
1 0 d -2
1 0 e 1
2 0 f 1
3 0 g 0
4 0 h 2
"""
# topic 1: spam, unjudged, relevant 1, unjudged, relevant 2; topic 2: nothing relevant found; topic 4 is not in the run.
RUN = """1 Q0 d 1 9 t
1 Q0 x 2 8 t
1 Q0 c 3 7 t
1 Q0 y 4 6 t
1 Q0 a 5 5 t
2 Q0 z 1 1 t
3 Q0 g 1 1 t
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run.txt").write_text(RUN)
    return tmp_path / "run.txt", tmp_path / "qrels"


def test_against_values_by_hand(files: tuple[Path, Path]) -> None:
    result = evaluate(read_run(files[0]), read_qrels(files[1]))
    assert result.index.tolist() == ["1", "2", "4"]  # topic 3 has no relevant document
    ideal = 2 + 1 / log2(3) + 1 / log2(4)
    expected = {
        "nDCG@5 all": (1 / log2(4) + 2 / log2(6)) / ideal,
        "nDCG@5 judged": (1 / log2(3) + 2 / log2(4)) / ideal,
        "MAP all": (1 / 3 + 2 / 5) / 3,
        "MAP judged": (1 / 2 + 2 / 3) / 3,
        "MRR all": 1 / 3,
        "MRR judged": 1 / 2,
        "P@5 all": 2 / 5,
        "P@5 judged": 2 / 5,
        "judged@5": 3 / 5,
    }
    assert result.loc["1", list(expected)].to_dict() == pytest.approx(expected)
    assert (result.loc[["2", "4"]] == 0).all(axis=None)
    means = table([files[0]], read_qrels(files[1]))
    assert means.loc[str(files[0]), "nDCG@5 judged"] == pytest.approx(expected["nDCG@5 judged"] / 3)


def test_the_rank_column_orders_not_the_score_or_the_line(files: tuple[Path, Path], tmp_path: Path) -> None:
    qrels = read_qrels(files[1])
    lines = RUN.splitlines()
    (tmp_path / "shuffled").write_text("\n".join(reversed(lines)) + "\n")
    pd.testing.assert_frame_equal(evaluate(read_run(tmp_path / "shuffled"), qrels), evaluate(read_run(files[0]), qrels))
    tied = "\n".join(" ".join([*line.split()[:4], "1", "t"]) for line in lines)
    (tmp_path / "tied").write_text(tied)
    pd.testing.assert_frame_equal(evaluate(read_run(tmp_path / "tied"), qrels), evaluate(read_run(files[0]), qrels))


def test_labels_like_4_0_and_spam(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 a 4.0\n1 0 b -2.0\n")
    assert read_qrels(tmp_path / "qrels")["rel"].tolist() == [4, 0]


def test_restricted_to_a_collection(tmp_path: Path, make_input: object) -> None:
    directory = make_input(arguments=[argument("c"), argument("a", premise="short")])  # type: ignore[operator]
    (tmp_path / "qrels").write_text(QRELS)
    assert read_qrels(tmp_path / "qrels", directory)["docid"].tolist() == ["a", "c"]


@pytest.mark.parametrize(
    ("qrels", "words"),
    [
        ("1 0 a 1\n1 0 b\n", "line 2: expected"),
        ("1 0 a high\n", "line 1: expected"),
        ("1 0 a 0.9\n", "line 1: expected"),
        ("1 0 a 1\n1 0 a 0\n", "a occurs twice in topic 1"),
        ("1 0 a 0\n", "no relevant document"),
    ],
)
def test_bad_qrels(tmp_path: Path, qrels: str, words: str) -> None:
    (tmp_path / "qrels").write_text(qrels)
    with pytest.raises(InputError, match=words):
        read_qrels(tmp_path / "qrels")


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("1 Q0 a 1 2\n", "line 1: expected"),
        ("1 Q0 a first 2 t\n", "line 1: expected"),
        ("1 Q0 a 1 nan t\n", "line 1: expected"),
        ("1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n", "a occurs twice"),
        ("", "an empty run"),
    ],
)
def test_bad_runs(tmp_path: Path, run: str, words: str) -> None:
    (tmp_path / "run").write_text(run)
    with pytest.raises(InputError, match=words):
        read_run(tmp_path / "run")


@pytest.mark.skipif(not REAL.exists(), reason="the real data is not beside this checkout")
def test_all_official_qrels_are_read() -> None:
    files = sorted((REAL / "touche-2020/qrels").iterdir())
    assert [len(read_qrels(file)) for file in files] == [2964, 2298, 2298]
