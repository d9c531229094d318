"""Tests of evaluation: hand-computed values, ir_measures, and unusual runs and qrels."""

from collections.abc import Callable
from math import log2
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ir_measures import AP, RR, Bpref, P, Qrel, Rprec, ScoredDoc, iter_calc, nDCG

from aragorn.io.dataset import Dataset
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn_training.evaluation.evaluate import (
    ALL,
    BPREF,
    CONDENSED,
    HEADLINE_MEASURES,
    evaluate_run,
)
from aragorn_training.evaluation.evaluate import TOUCHE_NDCG as TOUCHE
from tests.conftest import REAL_DATA, make_argument

Judgments = list[tuple[str, str, int]]
QRELS = "1 0 a 2\n1 0 b 0\n1 0 c 1\n1 0 d -2\n1 0 e 1\n2 0 f 1\n3 0 g 0\n4 0 h 2\n"
# Topic 1 ranks spam, unjudged, grade 1, unjudged, grade 2, grade 1; topic 2 has nothing relevant;
# topic 4 is not in the run.
RUN = "1 Q0 d 1 9 t\n1 Q0 x 2 8 t\n1 Q0 c 3 7 t\n1 Q0 y 4 6 t\n1 Q0 a 5 5 t\n1 Q0 e 6 4 t\n2 Q0 z 1 1 t\n3 Q0 g 1 1 t\n"
MEASURES = {
    **{f"nDCG@{depth}": nDCG @ depth for depth in (5, 10, 25)},
    "MAP": AP,
    "MRR": RR,
    "P@5": P @ 5,
    "Rprec": Rprec,
}


def read_files(directory: Path, qrels: str, run: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write the texts of qrels and of a run to files, and return the run and the qrels that are
    read from them."""
    (directory / "qrels").write_text(qrels)
    (directory / "run.txt").write_text(run)
    return read_run(directory / "run.txt"), read_qrels(directory / "qrels")


def test_evaluate_run_matches_hand_computed_values(tmp_path: Path) -> None:
    run, qrels = read_files(tmp_path, QRELS, RUN)
    result = evaluate_run(run, qrels)
    assert result.index.tolist() == ["1", "2", "4"]  # topic 3 has no relevant document
    assert list(HEADLINE_MEASURES) == [TOUCHE, "nDCG@5 condensed", "nDCG@5 all"]
    ideal = 2 + 1 / log2(3) + 1 / log2(4)
    expected = {
        TOUCHE: (1 / log2(3) + 2 / log2(4)) / ideal,  # unjudged documents are not replaced
        "nDCG@5 all": (1 / log2(4) + 2 / log2(6)) / ideal,
        "nDCG@5 condensed": (1 / log2(3) + 2 / log2(4) + 1 / log2(5)) / ideal,
        "judged@5": 3 / 5,
        "judged@10": 4 / 6,
    }
    assert result.loc["1", list(expected)].to_dict() == pytest.approx(expected)
    assert (result.loc[["2", "4"]].drop(columns=TOUCHE) == 0).all(axis=None)
    assert result.loc[["2", "4"], TOUCHE].isna().all()  # no judged document in the top five
    means = result.mean()
    assert means[["nDCG@5 condensed", TOUCHE]].tolist() == pytest.approx(
        [expected["nDCG@5 condensed"] / 3, expected[TOUCHE]]
    )
    # no judged topic
    assert (evaluate_run(run.assign(qid="7"), qrels).drop(columns=TOUCHE) == 0).all(axis=None)


def simulate_task(seed: int) -> tuple[pd.DataFrame, Judgments]:
    """Simulate rankings and judgments with ties, spam, and topics that are in the rankings or the
    judgments only."""
    rng = np.random.default_rng(seed)
    documents = [f"d{index:03}" for index in range(120)]
    rows: list[tuple[str, str, int, float]] = []
    judgments: Judgments = []
    for topic in map(str, range(1, 13)):
        judged, grades = rng.choice(documents, 40, replace=False), rng.integers(-2, 7, 40)
        if topic != "11":  # unjudged topic
            judgments += [
                (topic, docno, int(grade)) for docno, grade in zip(judged, grades, strict=True)
            ]
        if topic != "12":  # topic missing from the run
            scores = np.sort(rng.integers(0, 60, rng.integers(1, 80)))[::-1].tolist()
            docnos = rng.permutation(documents)[: len(scores)].tolist()
            # like trec_eval: ties by descending docno
            order = sorted(zip(scores, docnos, strict=True), reverse=True)
            rows += [
                (topic, docno, rank, float(score)) for rank, (score, docno) in enumerate(order, 1)
            ]
    return pd.DataFrame(rows, columns=["qid", "docno", "rank", "score"]), judgments


@pytest.mark.parametrize("seed", range(2))
def test_measures_equal_ir_measures(seed: int, tmp_path: Path) -> None:
    run, judgments = simulate_task(seed)
    # all ranks 1 for even seeds
    shuffled = run if seed % 2 else run.assign(rank=1).sample(frac=1, random_state=seed)
    lines = (
        f"{qid} Q0 {docno} {rank} {score} x\n"
        for qid, docno, rank, score in shuffled.itertuples(index=False)
    )
    factor = 1 if seed else 0.5  # halved grades change no measure
    rows = (
        f"{qid} 0 {docno} {grade * factor if grade > 0 else grade}\n"
        for qid, docno, grade in judgments
    )
    read, qrels = read_files(tmp_path, "".join(rows), "".join(lines))
    assert (
        read.groupby("qid")["docno"].apply(list).to_dict()
        == run.groupby("qid")["docno"].apply(list).to_dict()
    )
    result = evaluate_run(read, qrels)
    grades = {(qid, docno): max(0, grade) for qid, docno, grade in judgments if grade != -1}
    documents = {
        ALL: [ScoredDoc(qid, docno, score) for qid, docno, _, score in run.itertuples(index=False)]
    }
    documents[CONDENSED] = [
        document for document in documents[ALL] if (document.query_id, document.doc_id) in grades
    ]
    for treatment, ranking in documents.items():
        reference = [Qrel(qid, docno, grade) for (qid, docno), grade in grades.items()]
        values = pd.DataFrame(iter_calc([*MEASURES.values(), Bpref], reference, ranking))
        for name, measure in (MEASURES | {BPREF: Bpref}).items():
            expected = (
                values[values["measure"] == measure]
                .set_index("query_id")["value"]
                .reindex(result.index)
                .fillna(0.0)
            )
            column = name if name == BPREF else f"{name} {treatment}"
            np.testing.assert_allclose(result[column], expected, rtol=0, atol=1e-9, err_msg=column)


def test_qrels_are_restricted_to_the_corpus(
    tmp_path: Path, make_input: Callable[..., Path]
) -> None:
    directory = make_input(arguments=[make_argument("c"), make_argument("a", premise="short")])
    (tmp_path / "qrels").write_text(QRELS)
    assert read_qrels(tmp_path / "qrels", set(Dataset(directory).documents["docno"]))[
        "docno"
    ].tolist() == ["a", "c"]


@pytest.mark.skipif(not REAL_DATA.exists(), reason="the real data is not available")
def test_official_qrels_are_read() -> None:
    files = sorted((REAL_DATA / "touche-2020/qrels").iterdir())
    assert [len(read_qrels(file)) for file in files] == [2964, 2298, 2298]
