"""Fuzzed inputs lead to valid runs or to an error with exit code 3, on which `rank` and `check` agree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from submission.data.run_validation import find_run_issues
from submission.data.trec_lines import ORDERS
from tests.conftest import PREMISE
from tests.contract.conftest import Call
from tests.contract.input_files import ARGUMENTS, TOPIC, TWO_TOPICS, touche, write_files
from training.__main__ import main as training

Edits = list[tuple[float, int, bytes]]  # relative position, number of bytes to replace, and their replacement

ANY = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["1", "2", "a1", "x", "zoos", "d0", "d1", PREMISE])
SURROGATES = st.text(st.characters(categories=["Cs", "Ll"]), min_size=1, max_size=3)
IDS = st.text(st.sampled_from("a1 \t\0\x1b\x7f\x9b\u200b\u2028\u202eé"), min_size=1, max_size=2)
LEAF = st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | ANY | SURROGATES
JSON = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3), max_leaves=6)
TOKENS = st.sampled_from([
    b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"<", b">", b"/", b"&", b"\\", b"\\u0000", b"\0", b"\xff", b"\xef\xbb\xbf",
    b"\n", b" ", b"NaN", b"1e999", b"-", b"null", b"<![CDATA[", b"<!--", b"&#0;", b"&lt;", b"<?xml?>", b"\xed\xa0\x80",
    b"9" * 30,
])  # fmt: skip
EDITS = st.just([]) | st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 20), TOKENS | st.binary(max_size=6)), min_size=1, max_size=4
)


def apply_edits(content: str, edits: Edits) -> bytes:
    """Replace bytes of a text."""
    data = content.encode(errors="replace")
    for position, length, replacement in edits:
        start = int(position * len(data))
        data = data[:start] + replacement + data[start + length :]
    return data


def mostly(valid: str, invalid: st.SearchStrategy[Any] = JSON) -> st.SearchStrategy[Any]:
    """Generate mostly the valid value, and sometimes an invalid one."""
    return st.sampled_from([valid] * 3) | invalid


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Generate objects, some without some of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


ARGUMENT = objects(
    id=st.sampled_from(["a1", "a2", "a3", "x", "y"]) | IDS | JSON,
    conclusion=mostly("Zoos are cruel"),
    premises=st.lists(st.fixed_dictionaries({"text": mostly(PREMISE)}) | JSON, max_size=2) | JSON,
    context=JSON,
)
LINE = objects(
    qid=mostly("1", IDS | JSON),
    query=mostly("zoos"),
    docno=st.sampled_from(["d0", "d1", "d2"]) | IDS | JSON,
    text=mostly(f"zoos {PREMISE}"),
    rank=JSON,
    score=st.floats() | JSON,
)
ODD_ID = IDS.map(lambda docno: {"id": docno, "conclusion": "Zoos", "premises": [{"text": PREMISE}]})
ODD_LINE = st.tuples(IDS, st.floats(allow_nan=False, allow_infinity=False)).map(
    lambda pair: {"qid": "7", "query": "zoos", "docno": pair[0], "text": PREMISE, "rank": 1, "score": pair[1]}
)
LINES = st.lists(ODD_LINE.map(json.dumps), max_size=2) | st.lists((LINE | JSON).map(json.dumps) | ANY, max_size=5)
RUN_FIELD = st.sampled_from(["1", "2", "Q0", "a1", "a2", "a3", "1", "3", "0.5", "-1e300", "1e39", "x"]) | ANY
RUN_LINE = st.lists(RUN_FIELD, min_size=5, max_size=7) | st.tuples(
    st.sampled_from("12"), st.just("Q0"), st.sampled_from(["a1", "a2", "a3"]), st.integers().map(str), st.floats().map(str), ANY
)
TITLE = ANY.map(escape)
TOPICS = st.lists(st.tuples(TITLE | IDS, TITLE).map(lambda pair: TOPIC.format(*pair)), max_size=4)


def assert_agreement(call: Call, directory: Path, files: dict[str, bytes], checkpoints: Path, input_run: Path | None) -> None:
    """Assert that `rank` writes valid runs or fails, and that `check` agrees."""
    shutil.rmtree(directory, ignore_errors=True)
    write_files(directory, {**files})
    out = directory.parent / "out"
    flags = ["-i", directory, "--checkpoints", checkpoints]
    systems = [f"--system={system}" for system in ("bm25", "knrm", "dirichlet_rm3")]
    run_flags = ["--input-run", input_run] if input_run else []
    code, output = call("rank", *flags, "-o", out, "--overwrite", *systems, *run_flags, "--device=cpu")
    checked, check_output = call("check", *flags, *(["--run", input_run] if input_run else []))
    assert code in (0, 3), output
    assert checked in ((0, 3) if input_run else (code,)), output + check_output
    if code == 0:
        categories = {issue.category for run in out.glob("*.txt") for issue in find_run_issues(run, None, None)}
        assert categories <= {"too few lines", "too few topics"}, output


@given(elements=TOPICS, arguments=st.lists(ODD_ID, max_size=2) | st.lists(ARGUMENT | JSON, max_size=4), edits=EDITS)
def test_fuzzed_topics_and_arguments(
    elements: list[str], arguments: list[object], edits: Edits, tmp_path: Path, trained: Path, call: Call
) -> None:
    content = json.dumps({"arguments": [*ARGUMENTS[:2], *arguments]})
    topics = f"<topics>{''.join(elements) or TWO_TOPICS}</topics>"
    files = {"topics.xml": apply_edits(topics, edits[:1]), "args-me.json": apply_edits(content, edits[1:])}
    assert_agreement(call, tmp_path / "input", files, trained, None)


@given(queries=LINES, documents=LINES, candidates=st.none() | LINES, edits=EDITS)
def test_fuzzed_tirex_data(
    queries: list[str], documents: list[str], candidates: list[str] | None, edits: Edits,
    tmp_path: Path, trained: Path, call: Call,
) -> None:  # fmt: skip
    row = json.dumps({"qid": "7", "query": "zoos", "docno": "d7", "text": PREMISE, "rank": 1, "score": 1.5})
    retrieval = {"queries.jsonl": queries, "documents.jsonl": documents}
    lines = retrieval if candidates is None else {"rerank.jsonl": candidates}
    files = {name: apply_edits("\n".join([row, *rows]), edits) for name, rows in lines.items()}
    assert_agreement(call, tmp_path / "input", files, trained, None)


@given(rows=st.lists(RUN_LINE, max_size=5), edits=EDITS)
def test_fuzzed_runs(rows: list[list[str]], edits: Edits, tmp_path: Path, trained: Path, call: Call) -> None:
    run = tmp_path / "run.txt"
    run.write_bytes(apply_edits("\n".join(map(" ".join, rows)), edits))
    files = {name: str(content).encode() for name, content in touche().items()}
    assert_agreement(call, tmp_path / "input", files, trained, run)


PAIR = (st.sampled_from("123"), st.just("Q0"), st.sampled_from(["a1", "a2", "a3"]))
READABLE = st.tuples(*PAIR, st.integers(0, 9).map(str), st.floats(-9, 9).map(str), st.just("x"))
JUDGED = st.tuples(*PAIR, st.sampled_from(["0", "1", "2.0", "0.5", "-1", "-2", "1e2"]))
ROWS = st.lists(READABLE, min_size=1, max_size=9, unique_by=lambda row: (row[0], row[2])) | st.lists(RUN_LINE, max_size=5)
JUDGMENTS = st.lists(JUDGED, min_size=1, max_size=9, unique_by=lambda row: (row[0], row[2])) | st.lists(
    st.lists(RUN_FIELD, max_size=5), max_size=4
)


@given(rows=ROWS, judgments=JUDGMENTS, edits=EDITS, order=st.sampled_from(ORDERS))
def test_fuzzed_evaluations(
    rows: list[list[str]], judgments: list[list[str]], edits: Edits, order: str, tmp_path: Path, call: Call
) -> None:
    """`evaluate` writes measures in [0, 1], or fails without output."""
    run, qrels, tables = (tmp_path / name for name in ("run.txt", "q.qrels", "tables"))
    run.write_bytes(apply_edits("\n".join(map(" ".join, rows)), edits))
    qrels.write_bytes(apply_edits("\n".join(map(" ".join, judgments)), edits))
    shutil.rmtree(tables, ignore_errors=True)
    flags = ["--qrels", qrels, "-o", tables, "--baseline", "run", "--order", order, run]
    code, output = call("evaluate", *flags, program=training)
    assert code in (0, 3), output
    assert tables.exists() == (code == 0)
    if code == 0:
        means = pd.read_csv(tables / "means.csv")
        measures = means[~means["measure"].str.startswith("judged@")]
        assert (measures["mean"].dropna().between(0, 1 + 1e-9)).all()
        assert (means.loc[means["measure"] == "nDCG@5 all", "n_topics"] > 0).all()
