"""Tests of the `search` command on the sample: output in a terminal and as JSON, errors, and the prompt."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.data.runs import read_run
from submission.paths import CHECKPOINT_DIR
from tests.conftest import ROOT, SAMPLE
from tests.endtoend.conftest import Capture

LEXICAL = ("bm25", "bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")
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
    assert [results["system"] for results in expected] == list(LEXICAL)
    for results in expected:
        run = read_run(tmp_path / "runs" / f"aragorn-{results['system']}.txt")
        assert [hit["docno"] for hit in results["hits"]] == run[run["qid"] == "1"]["docno"].tolist()
    files = sorted((tmp_path / "work").rglob("*"))
    for function in (
        "data.args_me.ArgsMeReader.read_documents",
        "data.args_me.ArgsMeReader.iter_batches",
        "data.argument_metadata.decode_arguments",
    ):
        monkeypatch.setattr(f"submission.{function}", None)  # calling it fails
    assert json.loads(search(*flags, "--json", "--depth", "100", QUERY)[1])["systems"] == expected
    assert search(*flags, "another query about zoos")[0] == 0
    assert sorted((tmp_path / "work").rglob("*")) == files  # searching writes no files


def test_json_fields(search: Search) -> None:
    code, out, _ = search("--json", "--explain", "--depth", "3", "--system", "dirichlet", QUERY)
    results = json.loads(out)
    assert (code, results["query"], out.count("\n")) == (0, QUERY, 1)
    [system] = results["systems"]
    hit = system["hits"][2]
    assert {key: hit[key] for key in ("rank", "docno", "stance", "portal", "conclusion")} == {
        "rank": 3, "docno": "S89c1bfbf-A23fa7870", "stance": "CON", "portal": "debateorg",
        "conclusion": "Zoos should be abolished",
    }  # fmt: skip
    snippet, premise = hit["snippet"], hit["premise"]
    assert premise[snippet["start"] :].startswith(snippet["text"])
    assert [snippet["text"][start:end] for start, end in snippet["matches"]] == ["zoos"]
    assert hit["explanation"]["formula"].startswith("sum over query terms")
    contributions = hit["explanation"]["contributions"]
    assert sum(row["value"] for row in contributions) == pytest.approx(hit["score"])
    assert [row["name"] for row in contributions] == ["zoos", "abolished"]


def test_terminal_output_shows_systems_side_by_side(search: Search) -> None:
    code, out, _ = search("--system", "dirichlet", "--system", "bm25", "--explain", "--depth", "2", QUERY)
    assert (code, "\x1b" in out) == (0, False)
    lines = out.splitlines()
    assert lines[0].startswith("Should zoos be abolished?   461 arguments, ")
    assert re.fullmatch(r"dirichlet  37 results +│ bm25  \d+ results *", lines[2])
    assert re.fullmatch(r"  1  PRO  1\.3942 +│   1  \S+ +\d+\.\d{4} *", lines[4])
    assert any(line.lstrip().startswith("*ZOOS* ARE PRISONS.") for line in lines)
    assert any("contributions: zoos +0.900, abolished +0.494" in line for line in lines)
    assert any("debateorg S8b9b12de-A38bcfb72" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_default_is_the_best_lexical_system(search: Search) -> None:
    code, out, err = search(QUERY)
    assert (code, out.splitlines()[2].split()[0]) == (0, "dirichlet")
    assert "Using dirichlet, the best lexical system: fusion takes seconds per query without a GPU." in err


def test_errors_and_empty_results(search: Search, tmp_path: Path) -> None:
    code, _, err = search("-i", str(tmp_path), "zoos")
    assert (code, "no corpus found" in err) == (3, True)
    code, _, err = search("--system", "dirichlet", "--checkpoints", str(tmp_path), "zoos")
    assert (code, "checkpoint not found" in err) == (4, True)
    code, out, _ = search("--system", "dirichlet", "xyzzyx")
    assert (code, "no results: no argument contains a query term" in out) == (0, True)


def test_failure_of_one_system_does_not_stop_others(search: Search, tmp_path: Path) -> None:
    checkpoints = Path(shutil.copytree(CHECKPOINT_DIR / "dirichlet", tmp_path / "checkpoints" / "dirichlet")).parent
    flags = ["--system", "dirichlet", "--system", "bm25_arguments", "--checkpoints", str(checkpoints)]
    code, out, err = search(*flags, QUERY)
    assert (code, "failed:" in out, "1.3942" in out) == (6, True, True)
    assert "systems failed: bm25_arguments; the results of the other systems are printed above" in err


def test_tirex_documents_have_no_metadata(search: Search, tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"qid": "1", "query": "zoos"}\n')
    (tmp_path / "documents.jsonl").write_text(json.dumps({"docno": "d", "text": "zoos are cruel " * 8}) + "\n")
    code, out, _ = search("-i", str(tmp_path), "--system", "dirichlet", "--json", "cruel zoos")
    [hit] = json.loads(out)["systems"][0]["hits"]
    assert (code, hit["docno"], hit["stance"], hit["portal"]) == (0, "d", None, None)


def test_prompt_reads_queries_from_a_pipe(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = f"{QUERY}\n\n   \n{'zoo ' * 10_000}\nzoos \N{SNOWMAN}".encode() + b"\xff\x00\n"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(lines), encoding="ascii"))
    code, out, err = search("--system", "dirichlet", "--json")
    assert [json.loads(line)["query"] for line in out.splitlines()] == [QUERY, "zoos \ufffd\ufffd\ufffd\ufffd"]
    assert code == 0
    assert err.count("error: query has 39999 characters") == 1
    assert err.count("error: ") == 1  # empty lines are skipped


@pytest.mark.slow
def test_prompt_on_a_terminal_is_coloured() -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "submission", "search", "--system", "dirichlet", "--depth", "1", "--device", "cpu"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": ""}
    process = subprocess.Popen(command, cwd=ROOT, stdin=follower, stdout=follower, stderr=subprocess.PIPE, env=environment)
    os.close(follower)
    try:
        _read_until(leader, r"query> $")
        os.write(leader, QUERY.encode() + b"\n")
        out = _read_until(leader, r"A38bcfb72[^?]*query> $")
        assert "\x1b[1;32mPRO\x1b[0m" in out
        assert "\x1b[1;4;33mZOOS\x1b[0m" in out
        os.write(leader, b"\x04")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
        os.close(leader)


def _read_until(leader: int, pattern: str) -> str:
    """Read from a terminal until the output contains a pattern, for at most 30 seconds."""
    output, deadline = "", time.monotonic() + 30
    while not re.search(pattern, output):
        assert time.monotonic() < deadline, output
        if select.select([leader], [], [], 0.1)[0]:
            output += os.read(leader, 1 << 16).decode(errors="replace")
    return output
