"""Tests of commands on runs, documents and the cache: explain, re-rank, check, list, prune."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
import yaml

from aragorn.cache import open_cache
from aragorn.io.runs import read_run
from aragorn.pipeline.retrieval import Component
from aragorn.systems.catalogue import SYSTEMS
from tests.conftest import ROOT


def parse_table(output):
    """Map the labels of a comparison to both documents' values and their difference."""
    _, _, table = output.partition("difference\n")
    lines = [line.split(maxsplit=3) for line in table.split("\n\n")[0].splitlines()]
    return {label: list(map(float, values)) for *values, label in lines}


@pytest.fixture
def flags(topics_and_corpus, tiny_models):
    """Return the flags of `rank` and `explain`; the first four are also those of `check`."""
    return ["-i", topics_and_corpus, "--checkpoints", tiny_models, "--device=cpu"]


@pytest.mark.parametrize("system", ["dirichlet_rm3", "knrm"])
def test_explain_compares_two_documents(system, flags, call):
    flags = [*flags, "--system", system, "--qid=1"]
    documents = ["--docno=a0-0", "--docno=a0-1"]
    code, output = call("explain", *flags, *documents)
    table = parse_table(output)
    score = table.pop("score")
    assert (code, score[2]) == (0, pytest.approx(score[1] - score[0], abs=2e-6))
    assert all(
        difference == pytest.approx(second - first, abs=2e-6)
        for first, second, difference in table.values()
    )
    for position, document in enumerate(documents):
        code, single = call("explain", *flags, document)
        assert (code, f"score {score[position]:.6f}: " in single) == (0, True)
        if system == "dirichlet_rm3":  # the score is the sum of the contributions
            expected = pytest.approx(score[position], abs=1e-4)
            assert sum(values[position] for values in table.values()) == expected
    differences = [abs(values[2]) for label, values in table.items() if not label.endswith(" more")]
    assert differences == sorted(differences, reverse=True)


def test_explain_states_that_no_run_contains_a_document(flags, tmp_path, call):
    assert call("rank", *flags, "--system=bm25", "--depth=1000", "-o", tmp_path)[0] == 0
    run = read_run(tmp_path / "run.txt").groupby("qid")["docno"].agg(list)
    candidate = run["1"][0]
    outsider = next(docno for docno in run["2"] if docno not in run["1"])
    for system, docno, options, message in (
        ("knrm", outsider, [], "not among the candidates of knrm: no run contains it"),
        ("knrm", candidate, [], ""), ("snrm", outsider, [], ""),
        ("snrm", outsider, ["--input-run", tmp_path], f"not in {tmp_path / 'run.txt'}: no run contains it"),
        ("snrm", candidate, ["--input-run", tmp_path], ""),
    ):  # fmt: skip
        code, output = call(
            "explain", *flags, *options, "--system", system, "--qid=1", "--docno", docno
        )
        assert (code, "no run contains it" in output, message in output) == (0, bool(message), True)


def test_a_run_of_a_directory_is_reranked_under_a_label(flags, tmp_path, call):
    rank = ["rank", *flags, "--system=bm25", "--system=dirichlet_rm3"]
    assert call(*rank, "-o", tmp_path / "first")[0] == 0
    rerank = ["rank", *flags, "--system=knrm", "--label=bm25"]
    code, output = call(*rerank, "-o", tmp_path / "again", "--input-run", tmp_path / "first")
    message = f"re-ranking {tmp_path / 'first' / 'run.txt'}; for another run, pass its file to --input-run: aragorn-bm25.txt, "
    assert (code, message in output) == (0, True)
    expected = {"aragorn-bm25-knrm.txt", "run.txt"}
    assert {file.name for file in (tmp_path / "again").glob("*.txt")} == expected
    metadata = yaml.safe_load((tmp_path / "again" / "ir-metadata.yml").read_text())
    assert (metadata["actor"], metadata["tag"]) == ({"team": "aragorn"}, "aragorn-bm25-knrm")
    assert set(read_run(tmp_path / "again" / "run.txt")["tag"]) == {"aragorn-bm25-knrm"}
    code, output = call(
        *rerank, "-o", tmp_path / "file", "--input-run", tmp_path / "first" / "run.txt"
    )
    assert (code, "pass its file" in output) == (0, False)


def test_unused_results_of_a_cache_are_named_with_their_size(flags, tmp_path, call, monkeypatch):
    rank = ["rank", *flags, "--system=dirichlet_rm3", "--cache-dir", tmp_path / "cache", "-o"]
    code, output = call(*rank, tmp_path / "first")
    assert (code, "unused result" in output) == (0, False)
    [ranking] = (tmp_path / "cache").glob("ranking-*")
    (ranking / ranking.name).write_bytes(bytes(2_000_000))
    monkeypatch.setattr(Component, "describe_results", lambda self, session: "other versions")
    code, output = call(*rank, tmp_path / "second")
    size = r"\(2\.\d MB\)"
    name = re.escape(ranking.name)
    assert code == 0
    message = (
        f"cache: 1 unused result of other systems, inputs, .*{size}; delete them if unneeded: "
    )
    assert re.search(message + name, output)


def test_check_takes_several_runs_and_omits_checkpoints(flags, tmp_path, call):
    rank = ["rank", *flags, "-o", tmp_path]
    assert "run.txt: now" not in call(*rank, "--system=bm25", "--system=dirichlet_rm3")[1]
    message = "run.txt: now a copy of aragorn-dirichlet_rm3.txt, was aragorn-bm25.txt"
    assert [message in call(*rank, "--system=dirichlet_rm3")[1] for _ in range(2)] == [True, False]
    runs = [tmp_path / f"aragorn-{name}.txt" for name in ("bm25", "dirichlet_rm3")]
    runs.append(tmp_path / "run.txt")
    code, output = call(
        "check", *flags[:4], "--no-checkpoints", "--run", *runs[:2], "--run", runs[2]
    )
    expected = (0, [True] * 3, False)
    assert (code, [f"OK     {run}" in output for run in runs], "checkpoint" in output) == expected
    assert "checkpoint knrm" in call("check", *flags[:4], "--run", *runs)[1]


def test_quiet_logs_only_warnings_and_errors(tmp_path):
    arguments = ["rank", "--system=dirichlet", "--quiet", "-o", tmp_path / "out"]
    command = [sys.executable, "-m", "aragorn", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "submission")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert (done.stdout, done.stderr) == ("", "")
    assert (tmp_path / "out" / "run.txt").exists()


def test_systems_are_listed_as_json(checkpoints, call):
    code, output = call("systems", "--json", "--checkpoints", checkpoints)
    rows = {
        row["system"]: row for line in output.splitlines() if line for row in [json.loads(line)]
    }
    assert code == 0
    assert [*rows] == [*SYSTEMS]
    assert rows["knrm"]["missing_checkpoints"] == []
    assert rows["fusion"]["missing_checkpoints"][0] == "bm25_arguments"
    assert rows["bm25"]["description"] == SYSTEMS["bm25"].description


def test_results_are_listed_and_pruned_by_last_use(tmp_path, call):
    directory = tmp_path / "cache"
    with open_cache(directory, tmp_path) as cache:
        for key, size in (("new", 1_000_000), ("old", 3_000_000)):
            cache.get_or_build("terms", key, lambda size=size: bytes(size))
        cache.get_or_build("terms-deepct", "old", lambda: bytes(500_000))
        old = time.time() - 31 * 86400
        for name in ("terms", "terms-deepct"):
            os.utime(cache._locate(name, "old"), (old, old))
    (directory / "notes.txt").write_text("mine")
    foreign_dir = directory / f"terms-{'0' * 16}"  # named like a result
    foreign_dir.mkdir()
    (foreign_dir / "notes.txt").write_text("mine")
    os.utime(foreign_dir, (old, old))
    code, output = call("cache", directory)
    rows = [line.split() for line in output.splitlines()[1:] if line]
    assert code == 0
    expected = [["terms", "3", "4.0", "0"], ["terms-deepct", "1", "0.5", "31"], ["all", "4", "4.5"]]
    assert [row[:4] for row in rows] == expected
    with open_cache(directory, tmp_path) as cache:  # using a result renews it
        cache.get_or_build("terms-deepct", "old", bytes)
        code, output = call("cache", directory, "--prune", "30")
        assert (code, "in use by another process" in output) == (5, True)
    code, output = call("cache", directory, "--prune", "30")
    assert (code, "removed 1 result (3.0 MB)" in output) == (0, True)
    with open_cache(directory, tmp_path) as cache:
        assert len(cache.get_or_build("terms", "new", bytes)) == 1_000_000
        assert cache.get_or_build("terms", "old", lambda: b"built again") == b"built again"
    assert (directory / "notes.txt").read_text() == "mine"
    assert (foreign_dir / "notes.txt").read_text() == "mine"
    (tmp_path / "runs").mkdir()
    assert call("cache", tmp_path / "runs")[1].strip() == f"{tmp_path / 'runs'}: no cached results"
    code, output = call("cache", tmp_path / "missing")
    assert (code, "cannot be read" in output) == (5, True)
