from __future__ import annotations

from math import log2
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ir_measures import AP, RR, Bpref, P, Qrel, Rprec, ScoredDoc, iter_calc, nDCG

from submission.errors import InputError
from submission.input.directory import Input
from submission.input.runs import read_run
from tests.conftest import REAL, argument
from training.measuring.evaluate import BPREF, evaluate, evaluate_files, read_qrels

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
        "judged@10": 3 / 5,
        "Rprec all": 1 / 3,  # of the first three one is relevant
        "Rprec judged": 2 / 3,
        "Bpref": (1 - 1 / 2 + 1 - 1 / 2) / 3,  # one of two irrelevant ones before both that are found
    }
    assert result.loc["1", list(expected)].to_dict() == pytest.approx(expected)
    assert (result.loc[["2", "4"]] == 0).all(axis=None)
    means = evaluate_files([files[0]], read_qrels(files[1]))["run"].mean()
    assert means["nDCG@5 judged"] == pytest.approx(expected["nDCG@5 judged"] / 3)


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
    assert read_qrels(tmp_path / "qrels", set(Input(directory).documents["docno"]))["docno"].tolist() == ["a", "c"]


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


def test_bpref_where_nothing_is_judged_irrelevant(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 1\n2 0 a 1\n2 0 b 0\n")
    (tmp_path / "run").write_text("1 Q0 x 1 3 t\n1 Q0 b 2 2 t\n2 Q0 b 1 2 t\n2 Q0 a 2 1 t\n")
    found = evaluate(read_run(tmp_path / "run"), read_qrels(tmp_path / "qrels"))
    assert found["Bpref"].tolist() == [0.5, 0.0]


def test_negative_labels_are_judged_not_unjudged(tmp_path: Path) -> None:
    """trectools' own reader would drop them."""
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b -2\n")
    (tmp_path / "run").write_text("1 Q0 b 1 3 t\n1 Q0 a 2 2 t\n")
    found = evaluate(read_run(tmp_path / "run"), read_qrels(tmp_path / "qrels"))
    assert found.loc["1", ["judged@5", "MRR judged", "Bpref"]].tolist() == [1.0, 0.5, 0.0]


def test_means_are_over_the_topics_of_the_qrels(tmp_path: Path) -> None:
    """trectools' own means are over those of the run."""
    (tmp_path / "qrels").write_text("1 0 a 1\n2 0 a 1\n")
    (tmp_path / "run").write_text("1 Q0 a 1 3 t\n7 Q0 a 1 3 t\n")
    assert evaluate(read_run(tmp_path / "run"), read_qrels(tmp_path / "qrels"))["nDCG@5 all"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("seed", range(3))
def test_against_ir_measures(seed: int, tmp_path: Path) -> None:
    """trec_eval's own code; random graded lists with unjudged, irrelevant, spam, and topics found by nothing."""
    rng = np.random.default_rng(seed)
    documents = [f"d{number:03}" for number in range(120)]
    lines, judgments = [], []
    for topic in map(str, range(1, 13)):
        judged = rng.choice(documents, 40, replace=False)
        judgments += [(topic, d, int(label)) for d, label in zip(judged, rng.integers(-2, 4, 40), strict=True) if label != -1]
        for rank, d in enumerate(rng.permutation(documents)[: rng.integers(1, 80)], 1):
            lines.append((topic, d, rank, 1000.0 - rank))
    (tmp_path / "qrels").write_text("".join(f"{t} 0 {d} {label}\n" for t, d, label in judgments))
    (tmp_path / "run").write_text("".join(f"{t} Q0 {d} {rank} {score} x\n" for t, d, rank, score in lines))
    run, qrels = read_run(tmp_path / "run"), read_qrels(tmp_path / "qrels")
    found = evaluate(run, qrels)
    measures = {f"nDCG@{depth}": nDCG @ depth for depth in (5, 10, 25)}
    measures |= {"MAP": AP, "MRR": RR, "P@5": P @ 5, "Rprec": Rprec, BPREF: Bpref}
    known = [Qrel(t, d, max(0, label)) for t, d, label in judgments]
    judged_pairs = {(t, d) for t, d, _ in judgments}
    everything = [ScoredDoc(t, d, s) for t, d, _, s in lines]
    for way, listed in (("all", everything), ("judged", [x for x in everything if (x.query_id, x.doc_id) in judged_pairs])):
        values = pd.DataFrame(iter_calc(list(measures.values()), known, listed))
        for name, measure in measures.items():
            column = name if name == BPREF else f"{name} {way}"
            own = values[values["measure"] == measure].set_index("query_id")["value"].reindex(found.index).fillna(0.0)
            np.testing.assert_allclose(found[column], own, rtol=0, atol=1e-9, err_msg=column)


@pytest.mark.parametrize(
    ("docno", "judged", "words"),
    [
        (
            "S1b03f390-A22aff8a0",
            "197beaca-2019-04-18T11:28:59Z-00001-000",
            "2020-04-01 (S1b.*of args.me version 1 (197",
        ),
        (
            "197beaca-2019-04-18T11:28:59Z-00001-000",
            "S1b03f390-A22aff8a0",
            "version 1 (197.*of args.me 2020-04-01 (S1b",
        ),
        ("own-1", "S1b03f390-A22aff8a0", "of a collection of its own (own-1"),
    ],
)
def test_runs_of_another_collection_are_named_not_scored(docno: str, judged: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text(f"1 0 {judged} 1\n1 0 b 0\n")
    (tmp_path / "run.txt").write_text(f"1 Q0 {docno} 1 3 t\n")
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        evaluate_files([tmp_path / "run.txt"], read_qrels(tmp_path / "qrels"))
    (tmp_path / "run.txt").write_text(f"1 Q0 {docno} 1 3 t\n1 Q0 b 2 2 t\n")
    assert evaluate_files([tmp_path / "run.txt"], read_qrels(tmp_path / "qrels"))["run"]["MRR all"].tolist() == [0.0]
