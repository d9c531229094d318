"""Tests of the `search` command on the sample: rankings, output in a terminal and as JSON, errors, and the prompt."""

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
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from submission.__main__ import main
from submission.data.runs import read_run
from submission.paths import CHECKPOINT_DIR
from submission.search import load_system
from submission.systems.catalogue import SYSTEMS
from tests.conftest import ROOT, SAMPLE
from tests.endtoend.conftest import Capture, MakeExecution

LEXICAL = ("bm25", "bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")
QUERY = "Should zoos be abolished?"


@pytest.fixture
def search(capsys: Capture) -> Any:
    """Return a function that runs the `search` command in this process and returns exit code, stdout and stderr."""

    def run(*flags: str) -> tuple[int, str, str]:
        code = main(["search", *flags, "--device", "cpu"])
        return code, *capsys.readouterr()

    return run


def test_scores_equal_those_of_rank(make_execution: MakeExecution, tmp_path: Path) -> None:
    execution = make_execution(SAMPLE)
    topics, documents = execution.topics, execution.input.documents
    for name in LEXICAL:
        ranking = execution.get_ranking(SYSTEMS[name].stage)
        expected = ranking[ranking["rank"] <= 1000]
        hits = load_system(name).search(SAMPLE, topics, depth=1000)
        pd.testing.assert_frame_equal(hits, expected.reset_index(drop=True), check_exact=True)
        with load_system(name).index(documents) as index:
            separate = pd.concat([index.search(topics[topics["qid"] == qid], 1000) for qid in topics["qid"]], ignore_index=True)
        pd.testing.assert_frame_equal(separate, expected.reset_index(drop=True), check_exact=True)


def test_search_shares_rankings_and_cache_with_rank(search: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--cache-dir", str(tmp_path / "work"), *(flag for name in LEXICAL for flag in ("--system", name))]
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
    search(*flags, "another query about zoos")
    assert sorted((tmp_path / "work").rglob("*")) == files  # searching writes no files


def test_json_fields(search: Any) -> None:
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


def test_terminal_output_shows_systems_side_by_side(search: Any) -> None:
    code, out, _ = search("--system", "dirichlet", "--system", "bm25", "--explain", "--depth", "2", QUERY)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("Should zoos be abolished?   461 arguments, ")
    assert re.fullmatch(r"dirichlet  37 results +│ bm25  \d+ results *", lines[2])
    assert re.fullmatch(r"  1  PRO  1\.3942 +│   1  \S+ +\d+\.\d{4} *", lines[4])
    assert any(line.lstrip().startswith("*ZOOS* ARE PRISONS.") for line in lines)
    assert any("contributions: zoos +0.900, abolished +0.494" in line for line in lines)
    assert any("debateorg S8b9b12de-A38bcfb72" in line for line in lines)
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in out


def test_default_is_the_best_lexical_system(search: Any) -> None:
    code, out, err = search(QUERY)
    assert (code, out.splitlines()[2].split()[0]) == (0, "dirichlet")
    assert "Using dirichlet, the best lexical system: fusion takes seconds per query without a GPU." in err


def test_errors_and_empty_results(search: Any, tmp_path: Path) -> None:
    assert search("")[0] == 2
    assert search("zoo " * 10_000)[0] == 2
    code, _, err = search("--system", "dirichle", "zoos")
    assert (code, "did you mean 'dirichlet'?" in err) == (2, True)
    code, _, err = search("-i", str(tmp_path), "zoos")
    assert (code, "no corpus found" in err) == (3, True)
    code, _, err = search("--system", "dirichlet", "--checkpoints", str(tmp_path), "zoos")
    assert (code, "checkpoint not found" in err) == (4, True)
    code, out, _ = search("--system", "dirichlet", "xyzzyx")
    assert (code, "no results: no argument contains a query term" in out) == (0, True)


def test_failure_of_one_system_does_not_stop_others(search: Any, tmp_path: Path) -> None:
    checkpoints = Path(shutil.copytree(CHECKPOINT_DIR / "dirichlet", tmp_path / "checkpoints" / "dirichlet")).parent
    flags = ["--system", "dirichlet", "--system", "bm25_arguments", "--checkpoints", str(checkpoints)]
    code, out, err = search(*flags, QUERY)
    assert (code, "failed:" in out, "1.3942" in out) == (6, True, True)
    assert "failed: bm25_arguments; the results of the other systems are printed above" in err


def test_search_of_a_corpus_without_topics_and_of_tirex_input(search: Any, tmp_path: Path) -> None:
    shutil.copy(SAMPLE / "idebate.json", tmp_path)
    assert "idebate " in search("-i", str(tmp_path), "--system", "dirichlet", QUERY)[1]
    tirex = tmp_path / "tirex"
    tirex.mkdir()
    (tirex / "queries.jsonl").write_text('{"qid": "1", "query": "zoos"}\n')
    (tirex / "documents.jsonl").write_text(json.dumps({"docno": "d", "text": "zoos are cruel " * 8}) + "\n")
    code, out, _ = search("-i", str(tirex), "--system", "dirichlet", "--json", "cruel zoos")
    [hit] = json.loads(out)["systems"][0]["hits"]
    assert (code, hit["docno"], hit["stance"], hit["portal"]) == (0, "d", None, None)


@pytest.mark.slow
def test_prompt_reads_queries_from_a_pipe(tmp_path: Path) -> None:
    lines = f"{QUERY}\n\n   \n{'zoo ' * 10_000}\nzoos \N{SNOWMAN}".encode() + b"\xff\x00\n"
    command = [str(ROOT / "run.sh"), "search", "--system", "dirichlet", "--json", "--device", "cpu"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "HOME": "/nonexistent"}
    process = subprocess.run(command, input=lines, capture_output=True, cwd=tmp_path, env=environment, check=True)
    assert [json.loads(line)["query"] for line in process.stdout.splitlines()] == [QUERY, "zoos \ufffd\ufffd\ufffd\ufffd"]
    assert process.stderr.count(b"error: query has 39999 characters") == 1
    assert process.stderr.count(b"dirichlet: 1 topics in") == 1  # logged once
    assert process.stderr.count(b"error: ") == 1  # empty lines are skipped
    assert b"Traceback" not in process.stderr
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.slow
def test_search_with_a_cached_index_takes_seconds(tmp_path: Path) -> None:
    command = [str(ROOT / "run.sh"), "search", "--system", "dirichlet", "--cache-dir", str(tmp_path / "work"), QUERY]
    subprocess.run(command, check=True, capture_output=True)
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    assert time.monotonic() - start < 6.0  # about twice the time on an idle machine
