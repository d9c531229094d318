"""Tests of evaluation: hand-computed values, trectools, names of measures."""

import re
import warnings
from math import log2

import numpy as np
import pandas as pd
import pytest
from trectools import TrecEval, TrecQrel, TrecRun

from aragorn.errors import UsageError
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn_training.evaluation.evaluate import (
    ALL_MEASURES,
    HEADLINE_MEASURES,
    MAX_GRADE,
    evaluate_run,
    parse_measure,
)
from aragorn_training.evaluation.evaluate import TOUCHE_NDCG as TOUCHE
from tests.conftest import REAL_DATA

JUDGED_ONLY = "nDCG(judged_only=True)@5"
QRELS = "1 0 a 2\n1 0 b 0\n1 0 c 1\n1 0 d -2\n1 0 e 1\n2 0 f 1\n3 0 g 0\n4 0 h 2\n"
# Topic 1 ranks spam, unjudged, grade 1, unjudged, grade 2, grade 1; topic 2 has nothing relevant;
# topic 4 is not in the run.
RUN = "1 Q0 d 1 9 t\n1 Q0 x 2 8 t\n1 Q0 c 3 7 t\n1 Q0 y 4 6 t\n1 Q0 a 5 5 t\n1 Q0 e 6 4 t\n2 Q0 z 1 1 t\n3 Q0 g 1 1 t\n"
MEASURES = {
    **{
        f"nDCG@{depth}": lambda scorer, depth=depth: scorer.get_ndcg(depth, per_query=True)
        for depth in (5, 10, 25)
    },
    "AP": lambda scorer: scorer.get_map(per_query=True, trec_eval=False),
    "RR": lambda scorer: scorer.get_reciprocal_rank(per_query=True, trec_eval=False),
    "Rprec": lambda scorer: scorer.get_rprec(per_query=True, trec_eval=False),
    "P@5": lambda scorer: scorer.get_precision(5, per_query=True, trec_eval=False),
}


def read_files(directory, qrels, run):
    """Write qrels and a run to files, and return the frames read from them."""
    (directory / "qrels").write_text(qrels)
    (directory / "run.txt").write_text(run)
    return read_run(directory / "run.txt"), read_qrels(directory / "qrels")


def test_evaluate_run_matches_hand_computed_values(tmp_path):
    run, qrels = read_files(tmp_path, QRELS, RUN)
    result = evaluate_run(run, qrels)
    assert result.index.tolist() == ["1", "2", "4"]  # topic 3 has no relevant document
    assert list(HEADLINE_MEASURES) == [TOUCHE, JUDGED_ONLY, "nDCG@5"]
    ideal = 2 + 1 / log2(3) + 1 / log2(4)
    expected = {
        TOUCHE: (1 / log2(3) + 2 / log2(4)) / ideal,  # unjudged documents are not replaced
        "nDCG@5": (1 / log2(4) + 2 / log2(6)) / ideal,
        JUDGED_ONLY: (1 / log2(3) + 2 / log2(4) + 1 / log2(5)) / ideal,
        "Judged@5": 3 / 5,
        "Judged@10": 4 / 6,
    }
    assert result.loc["1", list(expected)].to_dict() == pytest.approx(expected)
    assert (result.loc[["2", "4"]].drop(columns=TOUCHE) == 0).all(axis=None)
    assert result.loc[["2", "4"], TOUCHE].isna().all()  # no judged document in the top five
    means = result.mean()
    actual = means[[JUDGED_ONLY, TOUCHE]].tolist()
    assert actual == pytest.approx([expected[JUDGED_ONLY] / 3, expected[TOUCHE]])
    # no judged topic
    assert (evaluate_run(run.assign(qid="7"), qrels).drop(columns=TOUCHE) == 0).all(axis=None)


def simulate_task(seed):
    """Simulate rankings and judgments with ties, spam, and topics of only one of both."""
    rng = np.random.default_rng(seed)
    documents = [f"d{index:03}" for index in range(120)]
    rows = []
    judgments = []
    for topic in map(str, range(1, 13)):
        judged = rng.choice(documents, 40, replace=False)
        grades = rng.integers(-2, 7, 40)
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


def score_with_trectools(run, qrels):
    """Return trectools' scorer of a run in rank order, with integer ids."""
    ids = {docno: index for index, docno in enumerate({*run["docno"], *qrels["docno"]})}
    documents = TrecRun()
    judgments = TrecQrel()
    documents.run_data = pd.DataFrame(
        {"query": run["qid"].astype(int), "q0": "Q0", "docid": run["docno"].map(ids), "system": "t"}
    ).assign(rank=run.groupby("qid").cumcount() + 1, score=0.0)
    columns = {"query": qrels["qid"].astype(int), "q0": "0", "docid": qrels["docno"].map(ids)}
    judgments.qrels_data = pd.DataFrame(columns | {"rel": qrels["rel"]})
    return TrecEval(documents, judgments)


@pytest.mark.parametrize(("seed", "factor"), [(0, 0.5), (1, 1), (2, 2 * MAX_GRADE), (3, 0.37)])
def test_measures_equal_trectools(seed, factor, tmp_path):
    run, judgments = simulate_task(seed)
    # all ranks 1 for even seeds
    shuffled = run if seed % 2 else run.assign(rank=1).sample(frac=1, random_state=seed)
    lines = (
        f"{qid} Q0 {docno} {rank} {score} x\n"
        for qid, docno, rank, score in shuffled.itertuples(index=False)
    )
    rows = (
        f"{qid} 0 {docno} {grade * factor if grade > 0 else grade}\n"
        for qid, docno, grade in judgments
    )
    read, qrels = read_files(tmp_path, "".join(rows), "".join(lines))
    expected = run.groupby("qid")["docno"].apply(list).to_dict()
    assert read.groupby("qid")["docno"].apply(list).to_dict() == expected
    result = evaluate_run(read, qrels)
    assert [*result] == [*ALL_MEASURES]
    for treatment, ranking in {"": read, "(judged_only=True)": read.merge(qrels)}.items():
        scorer = score_with_trectools(ranking[ranking["qid"].isin(result.index)], qrels)
        for name, compute in MEASURES.items():
            with warnings.catch_warnings():  # from trectools with pandas 2
                warnings.simplefilter("ignore")
                expected = compute(scorer).iloc[:, 0]
            column = re.sub(r"^(\w+)", rf"\1{treatment}", name)
            expected = expected.set_axis(expected.index.astype(str)).reindex(result.index)
            np.testing.assert_allclose(
                result[column], expected.fillna(0.0), rtol=0, atol=1e-12, err_msg=column
            )


def test_bpref_matches_hand_computed_values(tmp_path):
    # of 3 relevant documents, c and a follow no and d, one of two judged non-relevant ones
    run, qrels = read_files(tmp_path, QRELS, RUN)
    assert evaluate_run(run, qrels, ["Bpref"])["Bpref"].tolist() == pytest.approx([0.5, 0, 0])
    # without judged non-relevant documents: the recall of relevant ones
    relevant = qrels[qrels["rel"] > 0]
    assert evaluate_run(run, relevant, ["Bpref"]).loc["1", "Bpref"] == 1


def test_any_measure_of_ir_measures_is_computed(tmp_path):
    run, qrels = read_files(tmp_path, QRELS, RUN)
    names = [parse_measure(name) for name in ("P(rel=2)@5", "MAP", "nDCG@3", TOUCHE)]
    assert names == ["P(rel=2)@5", "AP", "nDCG@3", TOUCHE]
    values = evaluate_run(run, qrels, names)
    assert [*values] == names
    assert values["P(rel=2)@5"].tolist() == [0.2, 0, 0]
    # a grade above 0 is relevant, and only grades of at least 2 are for rel=2
    halves = evaluate_run(run, qrels.assign(rel=qrels["rel"] * 0.75), ["P@5", "P(rel=2)@5"])
    assert halves.loc["1"].tolist() == [0.4, 0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nDCG@", "unknown measure 'nDCG@'"),
        ("precision@5", "unknown measure 'precision@5'"),
        ("nDCG@5 (Touché)", "or nDCG@5-touche"),
        ("alpha_nDCG@5", "alpha_nDCG@5: needs another package; pip install ir-measures[pyndeval],"),
        ("P@0", "P@0: invalid cutoff 0; expected an integer from 1 to 1,000,000"),
        ("P(rel=0)@5", "invalid rel 0; expected"),
        ("P@99999999999", "invalid cutoff 99999999999; expected"),
        ("BPM", "BPM: not computed with these parameters; it has cutoff, T, min_rel, max_rel"),
        ("RBP(p=0.8)", "RBP: not computed with these parameters; it has cutoff, p, rel"),
    ],
)
def test_unknown_measures_are_refused(name, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_measure(name)


@pytest.mark.skipif(not REAL_DATA.exists(), reason="the real data is not available")
def test_official_qrels_are_read():
    files = sorted((REAL_DATA / "touche-2020/qrels").iterdir())
    assert [len(read_qrels(file)) for file in files] == [2964, 2298, 2298]
