from __future__ import annotations

import gzip
from math import log2
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, Bpref, P, Qrel, Rprec, ScoredDoc, iter_calc, nDCG

from submission.data.dataset import Dataset
from submission.data.runs import read_run
from submission.errors import InputError
from tests.conftest import REAL_DATA, make_argument
from training.evaluation.evaluate import ALL, BPREF, CONDENSED, HEADLINE_MEASURES, evaluate_run, evaluate_runs
from training.evaluation.measures import TOUCHE_NDCG as TOUCHE
from training.evaluation.qrels import read_qrels

QRELS = """1 0 a 2
1 0 b 0
1 0 c 1
1 0 d -2
1 0 e 1
2 0 f 1
3 0 g 0
4 0 h 2
"""
# Topic 1 ranks spam, unjudged, grade 1, unjudged, grade 2; topic 2 retrieves nothing relevant; topic 4 is not in the run.
RUN = """1 Q0 d 1 9 t
1 Q0 x 2 8 t
1 Q0 c 3 7 t
1 Q0 y 4 6 t
1 Q0 a 5 5 t
2 Q0 z 1 1 t
3 Q0 g 1 1 t
"""
MEASURES = {**{f"nDCG@{depth}": nDCG @ depth for depth in (5, 10, 25)}, "MAP": AP, "MRR": RR, "P@5": P @ 5, "Rprec": Rprec}


def evaluate_files(directory: Path, qrels: str, run: str) -> pd.DataFrame:
    """Evaluate a run file with a qrels file."""
    (directory / "qrels").write_text(qrels)
    (directory / "run.txt").write_text(run)
    return evaluate_run(read_run(directory / "run.txt"), read_qrels(directory / "qrels"))


def test_evaluate_run_matches_hand_computed_values(tmp_path: Path) -> None:
    result = evaluate_files(tmp_path, QRELS, RUN)
    assert result.index.tolist() == ["1", "2", "4"]  # topic 3 has no relevant document
    ideal = 2 + 1 / log2(3) + 1 / log2(4)
    expected = {
        TOUCHE: (1 / log2(3) + 2 / log2(4)) / ideal,  # unjudged documents are not replaced
        "nDCG@5 all": (1 / log2(4) + 2 / log2(6)) / ideal,
        "nDCG@5 condensed": (1 / log2(3) + 2 / log2(4)) / ideal,
        "judged@5": 3 / 5,
        "judged@10": 3 / 5,
    }
    assert result.loc["1", list(expected)].to_dict() == pytest.approx(expected)
    assert list(HEADLINE_MEASURES) == [TOUCHE, "nDCG@5 condensed", "nDCG@5 all"]
    assert result.columns[0] == TOUCHE
    assert (result.loc[["2", "4"]].drop(columns=TOUCHE) == 0).all(axis=None)
    assert result.loc[["2", "4"], TOUCHE].isna().all()  # no judged document in the top five
    means = evaluate_runs({"run": read_run(tmp_path / "run.txt")}, read_qrels(tmp_path / "qrels"))["run"].mean()
    assert means["nDCG@5 condensed"] == pytest.approx(expected["nDCG@5 condensed"] / 3)
    assert means[TOUCHE] == pytest.approx(expected[TOUCHE])


GRADES = st.sampled_from([-2, -1, 0, 1, 2, 3, 0.5])


@given(
    grades=st.lists(GRADES, min_size=1, max_size=12),
    order=st.permutations(range(16)),
    length=st.integers(min_value=0, max_value=16),
)
def test_touche_ndcg_equals_a_plain_implementation(grades: list[float], order: list[int], length: int) -> None:
    judged = {f"d{index}": max(0, grade) for index, grade in enumerate(grades) if grade != -1}
    listed = [f"d{index}" for index in order[:length]]
    qrels = pd.DataFrame({"qid": "1", "docno": [*judged], "rel": [float(grade) for grade in judged.values()]})
    qrels = qrels.astype({"docno": object, "qid": object})
    run = pd.DataFrame({"qid": "1", "docno": listed, "rank": range(1, length + 1), "score": 0.0}).astype(
        {"docno": object, "qid": object}
    )
    table = evaluate_run(run, qrels)
    ideal = sum(grade / log2(rank + 2) for rank, grade in enumerate(sorted(judged.values(), reverse=True)[:5]))
    if not ideal:
        assert table.empty
        return
    gains = [judged[docno] for docno in listed[:5] if docno in judged]
    expected = sum(gain / log2(rank + 2) for rank, gain in enumerate(gains)) / ideal if gains else np.nan
    assert table.loc["1", TOUCHE] == pytest.approx(expected, abs=1e-12, nan_ok=True)
    if listed[:5] and all(docno in judged for docno in listed[:5]):
        assert table.loc["1", [*HEADLINE_MEASURES]].tolist() == pytest.approx([expected] * 3, abs=1e-12)


SEPARATORS = (" ", "\t", "   ", " \t ")


@given(
    data=st.data(), scores=st.lists(st.integers(-50, 50), min_size=1, max_size=8), ending=st.sampled_from(["\n", "\r\n", "\r"])
)
def test_read_run_accepts_any_line_format(tmp_path: Path, data: st.DataObject, scores: list[int], ending: str) -> None:
    """Write lines in any order, with any separator and number format, and with ranks that agree with the scores."""
    scores.sort(reverse=True)
    docnos = [f"d{index}" for index in range(len(scores))]
    start = data.draw(st.sampled_from([0, 1, 7]))
    distinct = data.draw(st.booleans())
    ranks = list(range(start, start + len(scores))) if distinct else [start] * len(scores)
    expected = docnos if distinct else [docno for _, docno in sorted(zip(scores, docnos, strict=True), reverse=True)]
    notation = data.draw(st.sampled_from(["{}", "{}.0", "{:e}", "{:+}"]))
    lines = []
    for index in data.draw(st.permutations(range(len(scores)))):
        separator = data.draw(st.sampled_from(SEPARATORS))
        lines.append(separator.join(["1", "Q0", docnos[index], str(ranks[index]), notation.format(scores[index]), "t"]))
    content = "".join(f"{line}{ending}" for line in ["# a comment", *lines]).encode()
    plain, compressed = tmp_path / "run.txt", tmp_path / "run.txt.gz"
    plain.write_bytes(content)
    compressed.write_bytes(gzip.compress(content))
    for file in (plain, compressed):
        run = read_run(file)
        assert run["docno"].tolist() == expected
        assert run["rank"].tolist() == list(range(1, len(scores) + 1))
        assert run["score"].tolist() == scores


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ("1 0 a 1\n1 0 b\n", "line 2: 3 fields; expected 4.*BEIR"),
        ("1 0 a high\n", "line 1: invalid grade 'high'; expected a number"),
        ("1 0 a nan\n", "line 1: invalid grade 'nan'; expected a number"),
        ("1 0 a 1 2020\n", "line 1: 5 fields.*remove '2020' after the grade"),
        ("1 0 a b 1\n", "line 1: 5 fields.*docno 'a b' contains spaces"),
        ("1 0 a\u00a0b 1\n", "line 1: invalid docno"),
        ("1 0 a 1\n1 0 a 0\n", "line 2: duplicate judgment of document a for topic 1 \\(first in line 1\\)"),
        ("1 0 a 0\n", "no relevant document"),
    ],
)
def test_malformed_qrels_raise(tmp_path: Path, qrels: str, message: str) -> None:
    (tmp_path / "qrels").write_text(qrels)
    with pytest.raises(InputError, match=message):
        read_qrels(tmp_path / "qrels")


@pytest.mark.skipif(not REAL_DATA.exists(), reason="the real data is not available")
def test_official_qrels_are_read() -> None:
    files = sorted((REAL_DATA / "touche-2020/qrels").iterdir())
    assert [len(read_qrels(file)) for file in files] == [2964, 2298, 2298]


def test_evaluate_run_on_unusual_judgments(tmp_path: Path, make_input: object) -> None:
    (tmp_path / "qrels").write_text("1 0 a 4.0\n1 0 b -2.0\n")
    assert read_qrels(tmp_path / "qrels")["rel"].tolist() == [4, 0]
    directory = make_input(arguments=[make_argument("c"), make_argument("a", premise="short")])  # type: ignore[operator]
    (tmp_path / "qrels").write_text(QRELS)
    assert read_qrels(tmp_path / "qrels", set(Dataset(directory).documents["docno"]))["docno"].tolist() == ["a", "c"]
    judgments = "1 0 a 1\n1 0 b 1\n2 0 a 1\n2 0 b 0\n"  # topic 1 has no document judged non-relevant
    result = evaluate_files(tmp_path, judgments, "1 Q0 x 1 3 t\n1 Q0 b 2 2 t\n2 Q0 b 1 2 t\n2 Q0 a 2 1 t\n")
    assert result["Bpref"].tolist() == [0.5, 0.0]
    # trectools' reader would drop negative grades.
    result = evaluate_files(tmp_path, "1 0 a 1\n1 0 b -2\n", "1 Q0 b 1 3 t\n1 Q0 a 2 2 t\n")
    assert result.loc["1", ["judged@5", "MRR condensed", "Bpref"]].tolist() == [1.0, 0.5, 0.0]
    # trectools' means are over the topics of the run.
    result = evaluate_files(tmp_path, "1 0 a 1\n2 0 a 1\n", "1 Q0 a 1 3 t\n7 Q0 a 1 3 t\n")
    assert result["nDCG@5 all"].tolist() == [1.0, 0.0]


def random_task(seed: int) -> tuple[pd.DataFrame, list[tuple[str, str, int]]]:
    """Build random rankings and judgments with ties, spam, and topics that only one of them contains."""
    rng = np.random.default_rng(seed)
    documents = [f"d{index:03}" for index in range(120)]
    rows: list[tuple[str, str, int, float]] = []
    judgments = []
    for topic in map(str, range(1, 13)):
        judged = rng.choice(documents, 40, replace=False)
        labels = rng.integers(-2, 7, 40)
        if topic != "11":  # unjudged topic
            judgments += [(topic, d, int(label)) for d, label in zip(judged, labels, strict=True)]
        if topic != "12":  # topic missing from the run
            scores = np.sort(rng.integers(0, 60, rng.integers(1, 80)))[::-1].tolist()
            docnos = rng.permutation(documents)[: len(scores)].tolist()
            order = sorted(zip(scores, docnos, strict=True), reverse=True)  # like trec_eval: ties by descending docno
            rows += [(topic, d, rank, float(score)) for rank, (score, d) in enumerate(order, 1)]
    return pd.DataFrame(rows, columns=["qid", "docno", "rank", "score"]), judgments


@pytest.mark.parametrize("seed", range(6))
def test_measures_equal_ir_measures(seed: int, tmp_path: Path) -> None:
    run, judgments = random_task(seed)
    written = run if seed % 2 else run.assign(rank=1).sample(frac=1, random_state=seed)  # all ranks 1 for even seeds
    rows = (f"{t} Q0 {d} {rank} {score} x\n" for t, d, rank, score in written.itertuples(index=False))
    result = evaluate_files(tmp_path, "".join(f"{t} 0 {d} {label}\n" for t, d, label in judgments), "".join(rows))
    read = read_run(tmp_path / "run.txt")
    assert read.groupby("qid")["docno"].apply(list).to_dict() == run.groupby("qid")["docno"].apply(list).to_dict()
    known = [Qrel(t, d, max(0, label)) for t, d, label in judgments if label != -1]
    pairs = {(t, d) for t, d, label in judgments if label != -1}
    all_documents = [ScoredDoc(t, d, s) for t, d, _, s in run.itertuples(index=False)]
    for treatment, documents in (
        (ALL, all_documents),
        (CONDENSED, [x for x in all_documents if (x.query_id, x.doc_id) in pairs]),
    ):
        values = pd.DataFrame(iter_calc([*MEASURES.values(), Bpref], known, documents))
        for name, measure in (MEASURES | {BPREF: Bpref}).items():
            column = name if name == BPREF else f"{name} {treatment}"
            expected = values[values["measure"] == measure].set_index("query_id")["value"]
            expected = expected.reindex(result.index).fillna(0.0)
            np.testing.assert_allclose(result[column], expected, rtol=0, atol=1e-9, err_msg=column)


def test_halved_grades_change_no_measure(tmp_path: Path) -> None:
    run, judgments = random_task(9)
    for name, factor in (("full", 1), ("halves", 0.5)):
        lines = (f"{t} 0 {d} {label * factor}\n" for t, d, label in judgments if label not in (-1, -2))
        (tmp_path / name).write_text("".join(lines))
    full, halves = read_qrels(tmp_path / "full"), read_qrels(tmp_path / "halves")
    assert set(halves["rel"]) == {grade / 2 for grade in set(full["rel"])}
    pd.testing.assert_frame_equal(evaluate_run(run, full), evaluate_run(run, halves))


VERSION_1_DOCNO = "197beaca-2019-04-18T11:28:59Z-00001-000"


@pytest.mark.parametrize(
    ("docno", "judged", "words"),
    [
        ("S1b03f390-A22aff8a0", VERSION_1_DOCNO, "2020-04-01 (e.g. S1b.*on args.me version 1 (e.g. 197"),
        (VERSION_1_DOCNO, "S1b03f390-A22aff8a0", "version 1 (e.g. 197.*on args.me 2020-04-01 (e.g. S1b"),
        ("custom-1", "S1b03f390-A22aff8a0", "on an unknown collection (e.g. custom-1"),
    ],
)
def test_runs_on_another_collection_raise(docno: str, judged: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text(f"1 0 {judged} 1\n1 0 b 0\n")
    (tmp_path / "run.txt").write_text(f"1 Q0 {docno} 1 3 t\n")
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        evaluate_runs({"run": read_run(tmp_path / "run.txt")}, read_qrels(tmp_path / "qrels"))
    (tmp_path / "run.txt").write_text(f"1 Q0 {docno} 1 3 t\n1 Q0 b 2 2 t\n")
    result = evaluate_runs({"run": read_run(tmp_path / "run.txt")}, read_qrels(tmp_path / "qrels"))
    assert result["run"]["MRR all"].tolist() == [0.0]
