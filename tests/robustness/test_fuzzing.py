"""Tests that fuzzed inputs lead to a valid run or an error with a documented exit code, as checked by the harness."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.data.trec_lines import ORDERS
from tests.conftest import PREMISE
from tests.robustness.harness import ARGUMENTS, TOPICS, Program, rank_again
from training.__main__ import main as training

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
SOME = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), TOKENS | st.binary(max_size=6)), min_size=1, max_size=4)
EDITS = st.just([]) | SOME

Edits = list[tuple[float, int, bytes]]


def apply_edits(content: bytes, edits: Edits) -> bytes:
    """Apply edits, each consisting of a relative position, the number of bytes to replace, and their replacement."""
    for position, length, replacement in edits:
        start = int(position * len(content))
        content = content[:start] + replacement + content[start + length :]
    return content


def mostly(valid: str, invalid: st.SearchStrategy[Any] = JSON) -> st.SearchStrategy[Any]:
    """Generate mostly the valid value, and sometimes an invalid one."""
    return st.sampled_from([valid] * 3) | invalid


ARGUMENT = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a1", "a2", "a3", "x", "y"]) | IDS | JSON,
        "conclusion": mostly("Zoos are cruel"),
        "premises": st.lists(st.fixed_dictionaries({"text": mostly(PREMISE)}) | JSON, max_size=2) | JSON,
        "context": JSON,
    },
)
LINE = st.fixed_dictionaries(
    {},
    optional={
        "qid": mostly("1", IDS | JSON),
        "query": mostly("zoos"),
        "docno": st.sampled_from(["d0", "d1", "d2"]) | IDS | JSON,
        "text": mostly(f"zoos {PREMISE}"),
        "rank": JSON,
        "score": st.floats() | JSON,
    },
)
ODD_ID = {"id": IDS, "conclusion": st.just("Zoos"), "premises": st.just([{"text": PREMISE}])}  # other fields are valid
ODD_LINE = {"qid": st.just("7"), "query": st.just("zoos"), "docno": IDS, "text": st.just(PREMISE), "rank": st.just(1)}
ODD_LINE |= {"score": st.floats(allow_nan=False, allow_infinity=False)}
LINES = st.lists(st.fixed_dictionaries(ODD_LINE).map(json.dumps), max_size=2).map("\n".join) | st.lists(
    (LINE | JSON).map(json.dumps) | ANY, max_size=5
).map("\n".join)
RUN_FIELD = st.sampled_from(["1", "2", "Q0", "a1", "a2", "a3", "1", "3", "0.5", "-1e300", "1e39", "x"]) | ANY
RUN_LINE = st.lists(RUN_FIELD, min_size=5, max_size=7) | st.tuples(
    st.sampled_from("12"), st.just("Q0"), st.sampled_from(["a1", "a2", "a3"]), st.integers().map(str), st.floats().map(str), ANY
)
TITLE = ANY.map(escape)
TOPIC_ELEMENT = st.tuples(TITLE | IDS, TITLE).map(
    lambda pair: f"<topic><number>{pair[0]}</number><title>{pair[1]}</title></topic>"
)


def check_agreement(program: Program) -> None:
    """Check that the `rank` and `check` commands return the same exit code, 0 or 3."""
    ranked, checked = program.rank("--overwrite", systems=("bm25", "knrm", "dirichlet_rm3")), program.check()
    assert ranked[0] == checked[0], ranked[1] + checked[1]
    assert ranked[0] in (0, 3)


@given(elements=st.lists(TOPIC_ELEMENT, max_size=4), edits=EDITS)
def test_fuzzed_topics(program: Program, elements: list[str], edits: Edits) -> None:
    content = f"<topics>{''.join(elements)}</topics>" if elements else TOPICS
    (program.input / "topics.xml").write_bytes(apply_edits(content.encode(), edits))
    check_agreement(program)


@given(arguments=st.lists(st.fixed_dictionaries(ODD_ID), max_size=2) | st.lists(ARGUMENT | JSON, max_size=4), edits=EDITS)
def test_fuzzed_arguments(program: Program, arguments: list[object], edits: Edits) -> None:
    content = json.dumps({"arguments": [*ARGUMENTS[:2], *arguments]})
    (program.input / "args-me.json").write_bytes(apply_edits(content.encode(), edits))
    check_agreement(program)


@given(queries=LINES, documents=LINES, edits=EDITS)
def test_fuzzed_queries_and_documents(program: Program, queries: str, documents: str, edits: Edits) -> None:
    for name in ("topics.xml", "args-me.json"):
        (program.input / name).unlink(missing_ok=True)
    first = json.dumps({"qid": "7", "query": "zoos"}) + "\n"
    second = json.dumps({"docno": "d7", "text": f"zoos {PREMISE}"}) + "\n"
    (program.input / "queries.jsonl").write_bytes(apply_edits((first + queries).encode(errors="replace"), edits[:2]))
    (program.input / "documents.jsonl").write_bytes(apply_edits((second + documents).encode(errors="replace"), edits[2:]))
    check_agreement(program)


@given(rows=LINES, edits=EDITS)
def test_fuzzed_candidates(program: Program, rows: str, edits: Edits) -> None:
    for name in ("topics.xml", "args-me.json"):
        (program.input / name).unlink(missing_ok=True)
    row = {"qid": "7", "query": "zoos", "docno": "d7", "text": PREMISE, "rank": 1, "score": 1.5}
    (program.input / "rerank.jsonl").write_bytes(apply_edits((json.dumps(row) + "\n" + rows).encode(errors="replace"), edits))
    check_agreement(program)


@given(rows=st.lists(RUN_LINE, max_size=5), edits=EDITS)
def test_fuzzed_runs(program: Program, rows: list[list[str]], edits: Edits) -> None:
    run = program.input.parent / "run.txt"
    run.write_bytes(apply_edits("\n".join(map(" ".join, rows)).encode(), edits))
    code, output = program.rank("--input-run", str(run), "--overwrite", systems=("bm25", "knrm", "dirichlet_rm3"))
    assert code in (0, 3), output
    assert program.check("--run", str(run))[0] in (0, 3)


PAIR = (st.sampled_from("123"), st.just("Q0"), st.sampled_from(["a1", "a2", "a3"]))
READABLE = st.tuples(*PAIR, st.integers(0, 9).map(str), st.floats(-9, 9).map(str), st.just("x"))
JUDGED = st.tuples(*PAIR, st.sampled_from(["0", "1", "2.0", "0.5", "-1", "-2", "1e2"]))
ROWS = st.lists(READABLE, min_size=1, max_size=9, unique_by=lambda row: (row[0], row[2])) | st.lists(RUN_LINE, max_size=5)
JUDGMENTS = st.lists(JUDGED, min_size=1, max_size=9, unique_by=lambda row: (row[0], row[2])) | st.lists(
    st.lists(RUN_FIELD, max_size=5), max_size=4
)


@given(rows=ROWS, judgments=JUDGMENTS, edits=EDITS, order=st.sampled_from(ORDERS))
def test_fuzzed_runs_and_qrels(
    program: Program, rows: list[list[str]], judgments: list[list[str]], edits: Edits, order: str
) -> None:
    """`evaluate` writes measures in [0, 1], or fails without output."""
    run, qrels, tables = (program.input.parent / name for name in ("run.txt", "q.qrels", "tables"))
    run.write_bytes(apply_edits("\n".join(map(" ".join, rows)).encode(), edits))
    qrels.write_bytes(apply_edits("\n".join(map(" ".join, judgments)).encode(), edits))
    shutil.rmtree(tables, ignore_errors=True)
    code = training(["evaluate", "--qrels", str(qrels), "-o", str(tables), "--baseline", "run", "--order", order, str(run)])
    assert code in (0, 3)
    assert tables.exists() == (code == 0)
    if code == 0:
        means = pd.read_csv(tables / "means.csv")
        measures = means[~means["measure"].str.startswith("judged@")]
        assert (measures["mean"].dropna().between(0, 1 + 1e-9)).all()
        assert (means.loc[means["measure"] == "nDCG@5 all", "n_topics"] > 0).all()


@given(data=st.data(), edits=SOME)
def test_fuzzed_cache(finished_program: Program, finished: Path, data: st.DataObject, edits: Edits) -> None:
    shutil.rmtree(finished_program.work)
    shutil.copytree(finished / "work", finished_program.work)
    files = sorted(file.relative_to(finished_program.work) for file in finished_program.work.rglob("*") if file.is_file())
    file = finished_program.work / data.draw(st.sampled_from(files))
    file.write_bytes(apply_edits(file.read_bytes(), edits))
    finished_program.output.mkdir(exist_ok=True)
    rank_again(finished_program, finished, data.draw(st.sampled_from(["ranking-*", f"{file.parent.name}/"])))


@pytest.mark.parametrize("name", ["config.json", "probe.json", "provenance.json", "vocabulary.txt", "model.safetensors"])
@given(edits=SOME)
def test_fuzzed_checkpoints(program: Program, name: str, edits: Edits) -> None:
    folder = program.checkpoints / "knrm"
    original = program.checkpoints.parent / "original"
    if not original.exists():
        shutil.copytree(folder, original)
    shutil.rmtree(folder)
    shutil.copytree(original, folder)
    (folder / name).write_bytes(apply_edits((folder / name).read_bytes(), edits))
    code, output = program.rank("--overwrite", systems=("knrm",))
    assert code in (0, 4), output
