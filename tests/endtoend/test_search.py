"""Tests of the `search` command on the sample: output in a terminal and as JSON, errors, and the prompt."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.data.runs import read_run
from submission.paths import CHECKPOINT_DIR
from tests.conftest import SAMPLE
from tests.endtoend.conftest import Capture

LEXICAL = ("bm25", "dirichlet_rm3")
QUERY = "Should zoos be abolished?"
Search = Callable[..., tuple[int, str, str]]


@pytest.fixture
def search(capsys: Capture) -> Search:
    """Return a function that runs the `search` command in this process and returns exit code, stdout and stderr."""

    def run(*flags: str) -> tuple[int, str, str]:
        code = main(["search", *flags, "--device", "cpu"])
        return code, *capsys.readouterr()

    return run


def test_search_shares_rankings_and_cache_with_rank(search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--cache-dir", str(tmp_path / "work"), *(f"--system={name}" for name in LEXICAL)]
    assert main(["rank", "-i", str(SAMPLE), "-o", str(tmp_path / "runs"), "--device", "cpu", *flags]) == 0
    expected = json.loads(search(*flags, "--json", "--depth", "100", QUERY)[1])["systems"]
    for name, results in zip(LEXICAL, expected, strict=True):
        run = read_run(tmp_path / "runs" / f"aragorn-{name}.txt")
        assert [hit["docno"] for hit in results["hits"]] == run[run["qid"] == "1"]["docno"].tolist()
    files = sorted((tmp_path / "work").rglob("*"))
    for function in ("args_me.ArgsMeReader.read_documents", "args_me.ArgsMeReader.iter_batches"):
        monkeypatch.setattr(f"submission.data.{function}", None)  # calling it fails
    monkeypatch.setattr("submission.data.argument_metadata.decode_arguments", None)
    assert json.loads(search(*flags, "--json", "--depth", "100", QUERY)[1])["systems"] == expected
    assert sorted((tmp_path / "work").rglob("*")) == files  # searching writes no files


def test_json_fields(search: Search) -> None:
    code, out, _ = search("--json", "--explain", "--depth", "3", "--system", "dirichlet", QUERY)
    results = json.loads(out)
    assert (code, results["query"], out.count("\n")) == (0, QUERY, 1)
    hit = results["systems"][0]["hits"][2]
    assert {key: hit[key] for key in ("rank", "docno", "stance", "portal", "conclusion")} == {
        "rank": 3, "docno": "S89c1bfbf-A23fa7870", "stance": "CON", "portal": "debateorg",
        "conclusion": "Zoos should be abolished",
    }  # fmt: skip
    snippet = hit["snippet"]
    assert [snippet["text"][start:end] for start, end in snippet["matches"]] == ["zoos"]
    contributions = hit["explanation"]["contributions"]
    assert [row["name"] for row in contributions] == ["zoos", "abolished"]
    assert sum(row["value"] for row in contributions) == pytest.approx(hit["score"])


def test_failure_of_one_system_does_not_stop_others(search: Search, tmp_path: Path) -> None:
    checkpoints = Path(shutil.copytree(CHECKPOINT_DIR / "dirichlet", tmp_path / "checkpoints" / "dirichlet")).parent
    flags = ["--system", "dirichlet", "--system", "bm25_arguments", "--checkpoints", str(checkpoints)]
    code, out, err = search(*flags, QUERY)
    assert (code, "failed:" in out, "1.3942" in out) == (6, True, True)
    assert "systems failed: bm25_arguments" in err
    assert search(*flags[2:], QUERY)[0] == 4  # none is left


def test_prompt_reads_queries_from_a_pipe(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = f"{QUERY}\n\n   \n{'zoo ' * 10_000}\nzoos \N{SNOWMAN}".encode() + b"\xff\x00\n"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(lines), encoding="ascii"))
    code, out, err = search("--system", "dirichlet", "--json")
    assert [json.loads(line)["query"] for line in out.splitlines()] == [QUERY, "zoos \ufffd\ufffd\ufffd\ufffd"]
    assert code == 0
    assert err.count("error: query has 39999 characters") == err.count("error: ") == 1  # empty lines are skipped
