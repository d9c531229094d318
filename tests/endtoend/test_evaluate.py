"""Tests of `evaluate` on users' runs and qrels, and of the depth of re-ranked runs."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml

from submission.__main__ import main as submission
from submission.data.orders import Order
from submission.data.runs import read_run
from tests.conftest import make_argument
from tests.endtoend.conftest import Capture, Log
from training.__main__ import main as training
from training.evaluation.evaluate import HEADLINE_MEASURES, evaluate_run
from training.evaluation.qrels import read_qrels
from training.evaluation.tables import ALL_TOPICS, COMMON_TOPICS

QRELS = "1 0 a 2\n1 0 b 1\n1 0 c 0\n2 0 a 1\n2 0 d 2\n2 0 e 0\n3 0 b 2\n3 0 c -2\n"
DOCUMENTS = {"1": "abxc", "2": "edya", "3": "cbxz"}  # in rank order; x, y and z are unjudged
# Computed by hand from documents and grades in rank order: topic 1: a 2, b 1, x, c 0; 2: e 0, d 2, y, a 1; 3: c 0, b 2, x, z.
FIRST, SECOND, THIRD, FOURTH = 1.0, 1 / 1.5849625007211562, 0.5, 1 / 2.321928094887362  # discounts of ranks
IDEAL = 2 * FIRST + SECOND
EXPECTED = {
    "nDCG@5 (Touché)": (1 + (2 * SECOND + THIRD) / IDEAL + SECOND) / 3,
    "nDCG@5 condensed": (1 + (2 * SECOND + THIRD) / IDEAL + SECOND) / 3,
    "nDCG@5 all": (1 + (2 * SECOND + FOURTH) / IDEAL + SECOND) / 3,
    "MRR all": (1 + 1 / 2 + 1 / 2) / 3,
    "judged@5": (3 / 4 + 3 / 4 + 2 / 4) / 3,
}


def format_lines(pattern: str, documents: dict[str, str] = DOCUMENTS, by_docno: bool = False) -> str:
    """Format a run by rank, or by docno if `by_docno`, with topic {q}, document {d}, rank {r} from 1 and score {s} per line."""
    lines = [
        pattern.format(q=qid, d=docno, r=rank, r0=rank - 1, r10=rank * 10, reverse=9 - rank, s=len(docnos) - rank) + "\n"
        for qid, docnos in documents.items()
        for rank, docno in sorted(enumerate(docnos, 1), key=lambda pair: pair[1] if by_docno else "")
    ]
    return "".join(lines)


PLAIN = format_lines("{q} Q0 {d} {r} {s}.5 t")
RUNS: dict[str, tuple[str, Order]] = {  # texts and order of runs that are all equal
    "ranks 0": (format_lines("{q} Q0 {d} 0 {s}.5 t", by_docno=True), "auto"),
    "ranks from 0": (format_lines("{q} Q0 {d} {r0} {s} t"), "auto"),
    "equal scores": (format_lines("{q} Q0 {d} {r} 1.0 t", by_docno=True), "auto"),
    "ir_metadata": ("# ir_metadata.start\n# tag: t\n#   team: x\n# ir_metadata.end\n" + PLAIN, "auto"),
    "scores against ranks": (format_lines("{q} Q0 {d} {reverse} {s} t"), "score"),
    "ranks against scores": (format_lines("{q} Q0 {d} {r} {r} t"), "rank"),
}
GRADES: dict[str, tuple[str, str]] = {  # qrels with these means; part of the log
    "plain": ("# corrected\n" + QRELS, "negative grades set to 0 in 1 of 8 lines"),
    "halves": (
        "1 0 a 1\n1 0 b .5\n1 0 c 0\n2 0 a .5\n2 0 d 1.0\n2 0 e 0\n3 0 b 1\n3 0 c 0\n",
        "non-integer grades; binary measures count grades above 0 as relevant",
    ),
    "unjudged documents": (QRELS + "1 0 x -1\n7 0 a -1\n", "dropped 2 of 10 lines: grade -1 (unjudged)"),
}


def assert_expected_means(run: pd.DataFrame, qrels: pd.DataFrame) -> None:
    means = evaluate_run(run, qrels).mean()
    assert {measure: means[measure] for measure in EXPECTED} == pytest.approx(EXPECTED, abs=1e-6)


@pytest.mark.parametrize("name", RUNS)
def test_runs_of_other_software_are_evaluated(name: str, tmp_path: Path) -> None:
    (tmp_path / "q.qrels").write_text(QRELS)
    text, order = RUNS[name]
    (tmp_path / "run.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert_expected_means(read_run(tmp_path / "run.txt.gz", order), read_qrels(tmp_path / "q.qrels"))


@pytest.mark.parametrize("name", GRADES)
def test_grades_are_converted(name: str, tmp_path: Path, caplog: Log) -> None:
    caplog.set_level("INFO")
    text, message = GRADES[name]
    (tmp_path / "q.qrels").write_text(text)
    (tmp_path / "run.txt").write_text(PLAIN)
    assert_expected_means(read_run(tmp_path / "run.txt"), read_qrels(tmp_path / "q.qrels"))
    assert message in caplog.text


COMMANDS: dict[str, tuple[dict[str, str], tuple[str, ...], list[str]]] = {  # changed files; arguments; messages
    "two of three topics": (
        {"run.txt": format_lines("{q} Q0 {d} {r} {s} t", {"1": "abxc", "2": "edya"})}, (),
        ["run covers 2 of the 3 judged topics of q", "run × q: 2 of 3 topics, 75 % of the top five judged",
         "run (common topics)"],
    ),
    "one topic": ({"q.qrels": "1 0 a 2\n1 0 b 1\n"}, ("--baseline", "run"), ["1 topic: too few for intervals and tests"]),
    "two equal runs": ({"other.txt": PLAIN}, ("--baseline", "run", "other.txt"), ["no test for other"]),
    "named files": (
        {"more/q.qrels": QRELS, "more/run.txt": PLAIN}, ("--qrels", "other=more/q.qrels", "mine=more/run.txt"),
        ["run × other: 3 of 3", "mine × q: 3 of 3"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_evaluate_describes_runs_and_qrels(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, caplog: Log
) -> None:
    files, arguments, messages = COMMANDS[name]
    caplog.set_level("INFO")
    monkeypatch.chdir(tmp_path)
    for file, content in ({"run.txt": PLAIN, "q.qrels": QRELS} | files).items():
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text(content)
    assert training(["evaluate", "-o", "tables", "--qrels", "q.qrels", *arguments, "run.txt"]) == 0
    output = "".join(capsys.readouterr()) + caplog.text
    assert [message for message in messages if message not in output] == []


def test_means_over_all_and_common_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.qrels").write_text(QRELS)
    Path("run.txt").write_text(format_lines("{q} Q0 {d} {r} {s} t", {"1": "ab", "2": "z"}))
    assert training(["evaluate", "--qrels", "q.qrels", "-o", "tables", "run.txt"]) == 0
    rows = pd.read_csv("tables/means.csv").set_index(["topic_set", "measure"])
    for measure, means, counts in (
        (HEADLINE_MEASURES[0], [1.0, 1.0], [1, 1]),  # nothing is judged in topic 2
        (HEADLINE_MEASURES[2], [1 / 3, 1 / 2], [3, 2]),
    ):
        actual = rows.loc[[(ALL_TOPICS, measure), (COMMON_TOPICS, measure)]]
        assert actual["mean"].tolist() == pytest.approx(means, abs=1e-6)
        assert actual["n_topics"].tolist() == counts


DOCNOS = [f"a{index:03}" for index in range(150)]


@pytest.mark.parametrize(("flags", "depth", "dropped"), [((), 150, ""), (("--depth", "120"), 120, "30")])
def test_runs_are_truncated_to_their_depth(
    flags: tuple[str, ...], depth: int, dropped: str, make_input: Callable[..., Path], tmp_path: Path, caplog: Log
) -> None:
    caplog.set_level("INFO")
    directory = make_input([("1", "Are zoos cruel?")], [make_argument(docno) for docno in DOCNOS])
    (tmp_path / "run.txt").write_text("".join(f"1 Q0 {d} {r} {-r} t\n" for r, d in enumerate(DOCNOS[::-1], 1)))
    paths = ["-i", str(directory), "-o", str(tmp_path / "out"), "--input-run", str(tmp_path / "run.txt")]
    assert submission(["rank", *paths, "--system", "bm25", "--device", "cpu", *flags]) == 0
    assert read_run(tmp_path / "out" / "run.txt")["docno"].tolist() == DOCNOS[::-1][:depth]
    [entry] = yaml.safe_load((tmp_path / "out" / "ir-metadata.yml").read_text())["method"]["retrieval"]
    assert entry["depth"] == depth
    assert entry.get("truncated") == (f"{dropped} documents below rank {depth} omitted" if dropped else None)
    assert ("runs truncated to 120; change with --depth" in caplog.text) == (depth == 120)
    assert (f"{dropped} documents omitted" in caplog.text) == bool(dropped)
