"""Tests that `rank` either writes valid runs for a randomly damaged input or exits with code 3, and that `check` agrees."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.data.run_validation import find_run_issues
from tests.conftest import PREMISE
from tests.contract.conftest import Call
from tests.contract.input_files import HUB, format_lines, rerank, tirex, touche, touche_lines, write_files

TOKENS = st.sampled_from([
    b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"<", b">", b"/", b"&", b"\\", b"\\u0000", b"\\ud800", b"\0", b"\xff",
    b"\n", b" ", b"\t", b"\x1b", b"NaN", b"1e999", b"-", b"null", b"0.5", b"[[]]", b"<![CDATA[", b"<!--", b"&#0;", b"&lt;",
    b"<?xml?>", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u202e\u2028é".encode(), b"9" * 30, b"a1", b"d1", b"1",
])  # fmt: skip
Edits = list[tuple[float, int, bytes]]  # relative position, number of bytes to replace, and their replacement
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), TOKENS | st.binary(max_size=6)), max_size=4)
RUN = format_lines(3, 2, 1)
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
    """Encode a text in UTF-8 and apply the edits in order."""
    data = str(content).encode()
    for position, length, replacement in edits:
        start = int(position * len(data))
        data = data[:start] + replacement + data[start + length :]
    return data


@pytest.mark.parametrize("name", FORMATS)
@given(edits=EDITS)
def test_damaged_inputs_are_ranked_or_refused(name: str, edits: Edits, tmp_path: Path, tiny_models: Path, call: Call) -> None:
    files, damaged = FORMATS[name]
    directory, out = tmp_path / "input", tmp_path / "out"
    shutil.rmtree(directory, ignore_errors=True)
    write_files(directory, {**files, damaged: apply_edits(files[damaged], edits)})
    flags = ["-i", directory, "--checkpoints", tiny_models]
    run = directory / "run.txt" if name == "run" else None
    systems = [f"--system={system}" for system in ("bm25", "dirichlet_rm3")]
    code, output = call(
        "rank", *flags, "-o", out, "--overwrite", *systems, *(["--input-run", run] if run else []), "--device=cpu"
    )
    checked, check_output = call("check", *flags, *(["--run", run] if run else []))
    assert code in (0, 3), output
    assert checked == (3 if run else code), output + check_output  # any run of these is too small for TIRA
    if code == 0:
        categories = {issue.category for file in out.glob("*.txt") for issue in find_run_issues(file, None, None)}
        assert categories <= {"too few lines", "too few topics"}, output
