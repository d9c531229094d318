"""Tests of `evaluate` on users' runs and qrels: correct measures, or an error message with file, line and field."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest
import yaml

from submission.__main__ import main as submission
from submission.data.runs import read_run
from tests.conftest import ROOT, make_argument
from training.__main__ import main as training
from training.evaluation.evaluate import HEADLINE_MEASURES
from training.evaluation.tables import ALL_TOPICS, COMMON_TOPICS

QRELS = "1 0 a 2\n1 0 b 1\n1 0 c 0\n2 0 a 1\n2 0 d 2\n2 0 e 0\n3 0 b 2\n3 0 c -2\n"
ORDERS = {"1": "abxc", "2": "edya", "3": "cbxz"}  # x, y and z are unjudged
Line = Callable[[str, str, int, int], str]  # formats qid, docno, rank from 1, and number of documents as a line of a run


def run_of(line: Line, orders: dict[str, str] = ORDERS, by_docno: bool = False) -> str:
    """Format a run from the documents of each topic in rank order, with lines sorted by docno if `by_docno`."""
    rows = [(qid, d, rank, len(docs)) for qid, docs in orders.items() for rank, d in enumerate(docs, 1)]
    return "".join(line(*row) for row in (sorted(rows, key=lambda row: (row[0], row[1])) if by_docno else rows))


def plain(qid: str, docno: str, rank: int, size: int) -> str:
    return f"{qid} Q0 {docno} {rank} {size - rank}.5 t\n"


def scores(rank: str, qid: str = "{}") -> str:
    """Format a run sorted by docno whose ranks follow a pattern, so that only the scores define the order."""
    return run_of(lambda q, d, r, n: f"{qid.format(q)} Q0 {d} {rank.format(r)} {n - r}.5 t\n", by_docno=True)


@dataclass(frozen=True)
class Case:
    """Files and flags of `evaluate`, and the expected outcome."""

    run: str | bytes = run_of(plain)
    qrels: str = QRELS
    flags: tuple[str, ...] = ()
    code: int = 0
    messages: tuple[str, ...] = ()
    has_expected_means: bool = True
    name: str = "run.txt"
    runs: tuple[str, ...] = ()  # further runs
    files: dict[str, str] = field(default_factory=dict)  # further files


REJECTED = {"code": 3, "has_expected_means": False}
ORDER = {
    "all ranks 0": Case(scores("0"), messages=("equal ranks in 3 of 3 topics",)),
    "all ranks 1, as pyserini's and BEIR's writers": Case(scores("1")),
    "ranks from 0": Case(run_of(lambda q, d, r, n: f"{q} Q0 {d} {r - 1} {n - r} t\n")),
    "ranks with gaps": Case(run_of(lambda q, d, r, n: f"{q} Q0 {d} {r * 10} {n - r} t\n")),
    "ranks as decimals": Case(run_of(lambda q, d, r, n: f"{q} Q0 {d} {r}.0 {n - r} t\n")),
    "lines by docno": Case(run_of(plain, by_docno=True)),
    "equal scores, ranks decide": Case(run_of(lambda q, d, r, n: f"{q} Q0 {d} {r} 1.0 t\n", by_docno=True)),
    "scores below 0, as distances": Case(run_of(lambda q, d, r, n: f"{q} Q0 {d} {r} -{r}.25 t\n")),
    "scientific notation": Case(run_of(lambda q, d, r, n: f"{q} Q0 {d} {r} {n - r}.5e-05 t\n")),
    "tabs": Case(run_of(lambda q, d, r, n: f"{q}\tQ0\t{d}\t{r}\t{n - r}\tt\n")),
    "several blanks": Case(run_of(lambda q, d, r, n: f"  {q}  Q0 {d}   {r} {n - r} t \n")),
    "CR LF": Case(run_of(plain).replace("\n", "\r\n")),
    "no line end": Case(run_of(plain).rstrip("\n")),
    "a byte order mark": Case(("\ufeff" + run_of(plain)).encode()),
    "gzip": Case(gzip.compress(run_of(plain).encode()), name="run.txt.gz"),
    "ranks against scores": Case(
        run_of(lambda q, d, r, n: f"{q} Q0 {d} {n - r} {n - r} t\n"),
        messages=("run.txt, line 3: ranks and scores disagree in 3 of 3 topics; first in topic 1", "--order rank or"),
        **REJECTED,
    ),
    "ranks against scores in one topic": Case(
        run_of(lambda q, d, r, n: f"{q} Q0 {d} {n - r if q == '2' else r} {n - r} t\n"),
        messages=("in 1 of 3 topics; first in topic 2",),
        **REJECTED,
    ),
    "ranks against scores, the scores are meant": Case(
        run_of(lambda q, d, r, n: f"{q} Q0 {d} {n - r} {n - r} t\n"), flags=("--order", "score")
    ),
    "ranks against scores, the ranks are meant": Case(
        run_of(lambda q, d, r, n: f"{q} Q0 {d} {r} {r} t\n"), flags=("--order", "rank")
    ),
}
OVERLAP = {
    "another year": Case(
        run_of(plain, {"51": "abxc", "52": "edya"}), messages=("no common topic", ": 51, 52; ", ": 1, 2, 3)"), **REJECTED
    ),
    "a suffix": Case(scores("1", "{}.1"), messages=("1.1 without the part after the first `.` equals 1",), **REJECTED),
    "leading zeros": Case(scores("1", "00{}"), messages=("001 without leading zeros equals 1",), **REJECTED),
    "a prefix": Case(scores("1", "T{}"), messages=("T1 without the prefix before the number equals 1",), **REJECTED),
    "two of three topics": Case(
        run_of(plain, {"1": "abxc", "2": "edya"}),
        has_expected_means=False,
        messages=(
            "run covers 2 of the 3 judged topics of q",
            "run × q: 2 of 3 topics, 75 % of the top five judged",
            "run (common topics)",
        ),
    ),
    "a topic that nobody judged": Case(
        run_of(plain, ORDERS | {"9": "ab"}), messages=("3 of 3 topics", "unjudged topics of the run (1): 9")
    ),
    "documents of another corpus": Case(
        run_of(lambda q, d, r, n: f"{q} Q0 197beaca-2019-04-18T11:28:59Z-{r:05}-000 {r} {n - r} t\n"),
        messages=("no document is judged", "args.me version 1"),
        **REJECTED,
    ),
    "a topic without a relevant document": Case(
        run_of(plain, ORDERS | {"8": "ab"}),
        QRELS + "8 0 a 0\n8 0 b -2\n",
        messages=("topics without a relevant document, excluded (1): 8",),
    ),
    "only topics without a relevant document": Case(
        run_of(plain, {"8": "ab"}),
        QRELS + "8 0 a 0\n",
        messages=("the common topics (8) have no relevant document",),
        **REJECTED,
    ),
}
STATISTICS = {
    "one topic": Case(
        qrels="1 0 a 2\n1 0 b 1\n", has_expected_means=False, flags=("--baseline", "run"),
        messages=("1 topic: too few for intervals and tests",)
    ),
    "one topic and two runs": Case(
        qrels="1 0 a 2\n1 0 b 1\n", has_expected_means=False, flags=("--baseline", "run"), runs=("other.txt",),
        files={"other.txt": run_of(plain)},
        messages=("1 topic: too few for intervals and tests", "no test for other: constant differences"),
    ),
    "one run": Case(flags=("--baseline", "run"), messages=("run is the only run; no significance tests",)),
    "two equal runs": Case(
        flags=("--baseline", "run"), runs=("other.txt",), files={"other.txt": run_of(plain)}, messages=("no test for other",)
    ),
    "few topics": Case(messages=("3 topics: the randomisation test cannot reach p < .250",)),
    "all values equal": Case(run_of(plain, {"1": "ab", "2": "da", "3": "b"}), has_expected_means=False, messages=("1.000",)),
}  # fmt: skip
NAMES = {
    "two qrels of one name": Case(
        flags=("--qrels", "more/q.qrels"),
        files={"more/q.qrels": QRELS},
        code=2,
        has_expected_means=False,
        messages=("name each file with NAME=FILE",),
    ),
    "two named qrels": Case(
        flags=("--qrels", "other=more/q.qrels"), files={"more/q.qrels": QRELS}, messages=("run × other: 3 of 3",)
    ),
    "two runs of one name": Case(
        runs=("more/run.txt",),
        files={"more/run.txt": run_of(plain)},
        code=2,
        has_expected_means=False,
        messages=("duplicate run name 'run'; name each file with NAME=FILE",),
    ),
    "two named runs": Case(runs=("mine=more/run.txt",), files={"more/run.txt": run_of(plain)}, messages=("mine × q: 3 of 3",)),
    "a path with =": Case(runs=("a=b/c=d.txt",), files={"a=b/c=d.txt": run_of(plain)}, messages=("c=d × q: 3 of 3",)),
    "a named path with =": Case(
        runs=("mine=a=b/run.txt",), files={"a=b/run.txt": run_of(plain)}, messages=("mine × q: 3 of 3",)
    ),
    "a directory with run.txt": Case(runs=("made",), files={"made/run.txt": run_of(plain)}, messages=("made × q: 3 of 3",)),
    "a name without a file": Case(
        flags=("--qrels", "a="), code=2, has_expected_means=False, messages=("expected a non-empty path",)
    ),
    "a file without a name": Case(runs=("=run.txt",), code=2, has_expected_means=False, messages=("expected NAME before =",)),
}
GRADES = {
    "whole numbers as decimals": Case(qrels=QRELS.replace("2\n", "2.0\n")),
    "halves": Case(
        qrels="".join(f"{line[:-1]} {float(line[-1]) / 2}\n" for line in QRELS.replace(" -2", "  0").splitlines()),
        messages=("non-integer grades", "grades above 0 as relevant"),
    ),
    "a plus sign": Case(qrels=QRELS.replace("2\n", "+2\n").replace("-+2", "-2")),
    "message": Case(
        qrels="1 0 a relevant\n", messages=("q.qrels, line 1: invalid grade 'relevant'; expected a number",), **REJECTED
    ),
    "a comma": Case(qrels="1 0 a 0,5\n", messages=("q.qrels, line 1: invalid grade '0,5'; expected a number",), **REJECTED),
    "infinite": Case(qrels="1 0 a 1\n1 0 b inf\n", messages=("q.qrels, line 2: invalid grade 'inf'",), **REJECTED),
    "BEIR's columns": Case(
        qrels="query-id\tcorpus-id\tscore\n1\ta\t1\n",
        messages=("q.qrels, line 1: 3 fields", "in BEIR qrels, insert 0"),
        **REJECTED,
    ),
    "-1 is no judgment": Case(
        qrels=QRELS + "1 0 x -1\n2 0 y -1\n", messages=("dropped 2 of 10 lines with grade -1 (unjudged)",)
    ),
    "-2 is spam": Case(messages=("set 1 of 8 lines with another negative grade to 0",)),
    "only -1 for a topic": Case(
        run_of(plain, ORDERS | {"7": "a"}), QRELS + "7 0 a -1\n", messages=("unjudged topics of the run (1): 7",)
    ),
    "a score that is none": Case(
        run_of(plain) + "3 Q0 q 5 nan t\n",
        messages=("run.txt, line 13: invalid score 'nan'; expected a finite number",),
        **REJECTED,
    ),
    "a docno with a blank": Case(
        "1 Q0 a b 1 2.0 t\n", messages=("run.txt, line 1: 7 fields; expected 6", "docno 'a b' contains spaces"), **REJECTED
    ),
    "several faults": Case(
        "1 Q0 a 1 x t\n1 Q0 b 2 y t\n", messages=("(and 1 other invalid line; `check --run` lists all)",), **REJECTED
    ),
}
COMMENTS = {
    "before a run": Case("# made yesterday\n" + run_of(plain)),
    "an annotated run": Case("# ir_metadata.start\n# tag: t\n#   team: x\n# ir_metadata.end\n" + run_of(plain)),
    "before judgments": Case(qrels="# corrected\n" + QRELS),
    "between judgments": Case(qrels=QRELS.replace("2 0 a", "# topic 2\n\n2 0 a")),
    "behind the tag": Case(
        run_of(plain).replace(" t\n", " t best run\n"),
        messages=("run.txt, line 1: 8 fields", "remove 'best run' after the tag"),
        **REJECTED,
    ),
    "behind the grade": Case(
        qrels="1 0 a 1 sure\n", messages=("q.qrels, line 1: 5 fields", "remove 'sure' after the grade"), **REJECTED
    ),
}
CASES = {
    f"{kind}: {name}": case
    for kind, cases in {
        "order": ORDER, "overlap": OVERLAP, "statistics": STATISTICS, "names": NAMES, "grades": GRADES, "comments": COMMENTS,
    }.items()
    for name, case in cases.items()
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_evaluate(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = CASES[name]
    caplog.set_level("INFO")
    monkeypatch.chdir(tmp_path)
    for name, content in ({case.name: case.run, "q.qrels": case.qrels} | case.files).items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        code = training(["evaluate", "--qrels", "q.qrels", *case.flags, "-o", "tables", *case.runs, case.name])
    except SystemExit as error:
        code = int(str(error.code))
    out, err = capsys.readouterr()
    assert code == case.code, err
    for message in case.messages:
        assert message in out + err + caplog.text
    if case.has_expected_means:
        means = pd.read_csv("tables/means.csv").query("topic_set == @ALL_TOPICS").set_index(["qrels", "run", "measure"])["mean"]
        for measure, expected in EXPECTED.items():
            assert means["q", "run", measure] == pytest.approx(expected, abs=1e-6), measure


# Computed by hand from documents and grades in rank order: topic 1: a 2, b 1, x, c 0; 2: e 0, d 2, y, a 1; 3: c 0, b 2, x, z.
FIRST, SECOND, THIRD = 1.0, 1 / 1.5849625007211562, 0.5  # discounts of the first three ranks
IDEAL = 2 * FIRST + SECOND
EXPECTED = {
    "nDCG@5 (Touché)": (1 + (2 * SECOND + THIRD) / IDEAL + SECOND) / 3,
    "nDCG@5 condensed": (1 + (2 * SECOND + THIRD) / IDEAL + SECOND) / 3,
    "nDCG@5 all": (1 + (2 * SECOND + 1 / 2.321928094887362) / IDEAL + SECOND) / 3,
    "MRR all": (1 + 1 / 2 + 1 / 2) / 3,
    "judged@5": (3 / 4 + 3 / 4 + 2 / 4) / 3,
}


def test_means_over_all_and_common_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.qrels").write_text(QRELS)
    Path("run.txt").write_text(run_of(plain, {"1": "ab", "2": "zz"[:1]}))
    assert training(["evaluate", "--qrels", "q.qrels", "-o", "tables", "run.txt"]) == 0
    rows = pd.read_csv("tables/means.csv").set_index(["topic_set", "measure"])
    assert [rows.loc[(topic_set, HEADLINE_MEASURES[2]), "n_topics"] for topic_set in (ALL_TOPICS, COMMON_TOPICS)] == [3, 2]
    assert [rows.loc[(over, HEADLINE_MEASURES[2]), "mean"] for over in (ALL_TOPICS, COMMON_TOPICS)] == pytest.approx(
        [1 / 3, 1 / 2], abs=1e-6
    )
    counts = [rows.loc[(over, HEADLINE_MEASURES[0]), "n_topics"] for over in (ALL_TOPICS, COMMON_TOPICS)]
    assert counts == [1, 1]  # nothing is judged in topic 2
    assert [rows.loc[(over, HEADLINE_MEASURES[0]), "mean"] for over in (ALL_TOPICS, COMMON_TOPICS)] == [1.0, 1.0]


DOCNOS = [f"a{index:03}" for index in range(150)]


@pytest.fixture
def long_input(make_input: Callable[..., Path]) -> Path:
    return make_input([("1", "Are zoos cruel?")], [make_argument(docno) for docno in DOCNOS])


@pytest.mark.parametrize(
    ("flags", "depth", "message"),
    [((), 150, ""), (("--depth", "120"), 120, "30 documents below rank 120"), (("--depth", "1000"), 1000, "")],
)
def test_supplied_run_keeps_its_depth(
    long_input: Path, tmp_path: Path, flags: tuple[str, ...], depth: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "run.txt").write_text("".join(f"1 Q0 {d} {r} {-r} t\n" for r, d in enumerate(DOCNOS[::-1], 1)))
    paths = ["-i", str(long_input), "-o", str(tmp_path / "out"), "--input-run", str(tmp_path / "run.txt"), "--system", "bm25"]
    assert submission(["rank", *paths, "--device", "cpu", *flags]) == 0
    assert read_run(tmp_path / "out" / "run.txt")["docno"].tolist() == DOCNOS[::-1][: min(depth, 150)]
    [entry] = yaml.safe_load((tmp_path / "out" / "ir-metadata.yml").read_text())["method"]["retrieval"]
    assert (entry["depth"], message in str(entry.get("truncated", ""))) == (depth, True)
    assert ("runs truncated to 120; change with --depth" in caplog.text) == bool(message)
    assert ("30 documents dropped" in caplog.text) == bool(message)


def test_truncation_is_recorded_in_metadata(long_input: Path, tmp_path: Path) -> None:
    assert submission(["rank", "-i", str(long_input), "-o", str(tmp_path / "out"), "--system", "bm25", "--device", "cpu"]) == 0
    [entry] = yaml.safe_load((tmp_path / "out" / "ir-metadata.yml").read_text())["method"]["retrieval"]
    assert (entry["depth"], entry["truncated"]) == (100, "50 documents below rank 100 omitted")


@pytest.mark.parametrize(
    ("lines", "order", "code", "expected"),
    [
        ("1 Q0 a001 1 1 t\n1 Q0 a000 1 2 t\n1 Q0 a002 1 3 t\n", "auto", 0, ["a002", "a000", "a001"]),
        ("1 Q0 a000 1 5 t\n1 Q0 a002 2 5 t\n1 Q0 a001 3 5 t\n", "auto", 0, ["a000", "a002", "a001"]),
        ("1 Q0 a001 1 1 t\n1 Q0 a000 2 2 t\n1 Q0 a002 3 3 t\n", "auto", 3, []),
        ("1 Q0 a001 1 1 t\n1 Q0 a000 2 2 t\n1 Q0 a002 3 3 t\n", "rank", 0, ["a001", "a000", "a002"]),
        ("1 Q0 a001 1 1 t\n1 Q0 a000 2 2 t\n1 Q0 a002 3 3 t\n", "score", 0, ["a002", "a000", "a001"]),
    ],
)
def test_supplied_run_order(long_input: Path, tmp_path: Path, lines: str, order: str, code: int, expected: list[str]) -> None:
    (tmp_path / "run.txt").write_text(lines)
    paths = ["-i", str(long_input), "-o", str(tmp_path / "out"), "--input-run", str(tmp_path / "run.txt"), "--system", "bm25"]
    assert submission(["rank", *paths, "--device", "cpu", "--order", order]) == code
    if code == 0:
        assert read_run(tmp_path / "out" / "run.txt")["docno"].tolist() == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7 Q0 a000 1 1 t\n", "run.txt: the only topic is not in the input (first: 7)"),
        (
            "1 Q0 a000 1 1 t\n7 Q0 a000 1 1 t\n8 Q0 a000 1 1 t\n",
            "run.txt: 2 of 3 topics are not in the input (first: 7)",
        ),
        ("01 Q0 a000 1 1 t\n02 Q0 a000 1 1 t\n", "none of the 2 topics is in the input (first: 01); "),
        ("01 Q0 a000 1 1 t\n02 Q0 a000 1 1 t\n", "01 without leading zeros equals 1"),
        ("1 Q0 a000 1 2 t\n1 Q0 z 2 1 t\n", "run.txt: 1 of 2 documents is not in the input (first: z)"),
    ],
)
def test_run_of_another_input_is_rejected(
    long_input: Path, tmp_path: Path, line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.txt").write_text(line)
    paths = ["-i", str(long_input), "-o", str(tmp_path / "out"), "--input-run", str(tmp_path / "run.txt"), "--system", "bm25"]
    assert submission(["rank", *paths, "--device", "cpu"]) == 3
    assert message in capsys.readouterr().err


SHARED = ROOT.parent / "shared" / "cases"
SAMPLE = ROOT / "submission" / "sample"
CODES = {  # exit codes of `evaluate` with a case's run and the sample's qrels, or vice versa
    "rank-all-1-by-docno/run.txt": 0, "rank-against-score/run.txt": 3, "qid-suffix/run.txt": 3, "partial-overlap/run.txt": 0,
    "docno-blank/run.txt": 3, "nan-score/run.txt": 3, "q-comment/q.qrels": 0, "q-half-grades/q.qrels": 0,
    "q-one-topic/q.qrels": 0, "q-message/q.qrels": 3, "q-other-qids.qrels": 3, "two-of-one-name/relevance/qrels.txt": 0,
}  # fmt: skip


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared example files")
@pytest.mark.parametrize("name", CODES)
def test_evaluate_user_files(name: str, tmp_path: Path) -> None:
    case, qrels, run = SHARED / name, SAMPLE / "sample.qrels", SHARED / "rank-all-1-by-docno" / "run.txt"
    qrels, run = (qrels, case) if case.name == "run.txt" else (case, run)
    assert training(["evaluate", "--qrels", str(qrels), "-o", str(tmp_path), str(run)]) == CODES[name]


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared example files")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("big-list", 0), ("c-hf-jsonl", 0), ("c-nan", 3), ("sep-in-text", 0), ("unicode-nfd-topic", 0),
        ("unicode-softhyphen", 0),
        ("x-docid", 0), ("x-docno-int", 0),
    ],
)  # fmt: skip
def test_rank_user_inputs(name: str, code: int, tmp_path: Path) -> None:
    flags = ["--system", "bm25", "--device", "cpu"] + (["--system", "bm25_arguments"] if name.startswith("unicode") else [])
    assert submission(["rank", "-i", str(SHARED / name), "-o", str(tmp_path / "out"), *flags]) == code
    if code == 0:
        longest = read_run(tmp_path / "out" / "run.txt").groupby("qid").size().max()
        assert longest == 150 if name == "big-list" else 0 < longest <= 100
