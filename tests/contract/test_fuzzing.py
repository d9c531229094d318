"""Randomly damaged inputs lead to valid runs or to an error with exit code 3, on which `rank` and `check` agree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.data.run_validation import find_run_issues
from submission.data.trec_lines import ORDERS
from tests.conftest import PREMISE
from tests.contract.conftest import Call
from tests.contract.input_files import HUB, rerank, scored, tirex, touche, touche_lines, write_files
from training.__main__ import main as training

TOKENS = st.sampled_from([
    b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"<", b">", b"/", b"&", b"\\", b"\\u0000", b"\\ud800", b"\0", b"\xff",
    b"\n", b" ", b"\t", b"\x1b", b"NaN", b"1e999", b"-", b"null", b"0.5", b"[[]]", b"<![CDATA[", b"<!--", b"&#0;", b"&lt;",
    b"<?xml?>", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u202e\u2028é".encode(), b"9" * 30, b"a1", b"d1", b"1",
])  # fmt: skip
Edits = list[tuple[float, int, bytes]]  # relative position, number of bytes to replace, and their replacement
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), TOKENS | st.binary(max_size=6)), max_size=4)
RUN = scored(3, 2, 1)
QRELS = "1 0 a1 2\n1 0 a2 0\n2 0 a1 1\n2 0 a3 -2\n"
FORMATS = {  # files, and the name of the damaged one
    "topics": (touche(), "topics.xml"),
    "corpus": (touche(), "args-me.json"),
    "lines": (touche_lines(HUB, {**HUB, "id": "b"}), "args-me.jsonl"),
    "queries": (tirex(), "queries.jsonl"),
    "documents": (tirex(), "documents.jsonl"),
    "candidates": (rerank({"rank": 1, "score": 2.5, "text": PREMISE}, {"rank": 2, "score": 1, "qid": 1}), "rerank.jsonl"),
    "run": ({**touche(), "run.txt": RUN}, "run.txt"),
}


def apply_edits(content: object, edits: Edits) -> bytes:
    """Replace bytes of a text."""
    data = str(content).encode()
    for position, length, replacement in edits:
        start = int(position * len(data))
        data = data[:start] + replacement + data[start + length :]
    return data


@pytest.mark.parametrize("name", FORMATS)
@given(edits=EDITS)
def test_damaged_inputs_are_ranked_or_refused(name: str, edits: Edits, tmp_path: Path, trained: Path, call: Call) -> None:
    files, damaged = FORMATS[name]
    directory, out = tmp_path / "input", tmp_path / "out"
    shutil.rmtree(directory, ignore_errors=True)
    write_files(directory, {**files, damaged: apply_edits(files[damaged], edits)})
    flags = ["-i", directory, "--checkpoints", trained]
    run = directory / "run.txt" if name == "run" else None
    systems = [f"--system={system}" for system in ("bm25", "knrm", "dirichlet_rm3")]
    code, output = call(
        "rank", *flags, "-o", out, "--overwrite", *systems, *(["--input-run", run] if run else []), "--device=cpu"
    )
    checked, check_output = call("check", *flags, *(["--run", run] if run else []))
    assert code in (0, 3), output
    assert checked == (3 if run else code), output + check_output  # any run of these is too small for TIRA
    if code == 0:
        categories = {issue.category for file in out.glob("*.txt") for issue in find_run_issues(file, None, None)}
        assert categories <= {"too few lines", "too few topics"}, output


@given(run_edits=EDITS, qrels_edits=EDITS, order=st.sampled_from(ORDERS))
def test_damaged_runs_and_qrels_are_evaluated_or_refused(
    run_edits: Edits, qrels_edits: Edits, order: str, tmp_path: Path, call: Call
) -> None:
    run, qrels, tables = (tmp_path / name for name in ("run.txt", "q.qrels", "tables"))
    run.write_bytes(apply_edits(RUN + RUN.replace("1 Q0", "2 Q0"), run_edits))
    qrels.write_bytes(apply_edits(QRELS, qrels_edits))
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
