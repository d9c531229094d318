"""Tests of one command that ranks with all systems: shared computation, the ensemble, failures, caching and signals."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from tira.check_format import check_format

from submission.__main__ import main as submission
from submission.data.runs import read_run
from submission.fusion.regression import RegressionEnsemble
from submission.inference.ranker_checkpoint import PROBE_PAIRS, UNICODE_PROBE_PAIRS
from submission.signals import SIGNAL_EXIT_CODES
from submission.storage.cache_directory import CacheDirectory
from submission.storage.checkpoint_directory import read_config
from submission.systems.catalogue import ENSEMBLE_MEMBERS, RERANKERS, SYSTEMS
from submission.text.tokenisers import WordTokeniser
from tests.conftest import ROOT, read_files, write_tiny_ranker
from tests.endtoend.conftest import AssertFails, Capture, Log, RankAll
from training.__main__ import main as training


def test_ensemble_has_the_expected_eight_networks(all_checkpoints_dir: Path, capsys: Capture) -> None:
    ensemble = read_config(all_checkpoints_dir / "ensemble", RegressionEnsemble)
    assert [member.name for member in ensemble.members] == [*RERANKERS, "snrm"]
    assert all(member.minimum < member.maximum for member in ensemble.members)
    assert json.loads((all_checkpoints_dir / "ensemble" / "metrics.json").read_text())["pairs"] == 250
    assert submission(["systems", "--checkpoints", str(all_checkpoints_dir)]) == 0
    assert f"score = {ensemble.formula()}" in capsys.readouterr().out


def test_rank_writes_all_runs_independently_of_the_order_of_arguments(
    rank_all: RankAll, corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert rank_all() == 0
    out = tmp_path / "out"
    assert set(read_files(out)) == {*(f"aragorn-{name}.txt" for name in SYSTEMS), "run.txt", "fingerprint.json"}
    for name in SYSTEMS:
        (tmp_path / name).mkdir()
        shutil.copy(out / f"aragorn-{name}.txt", tmp_path / name / "run.txt")
        [message] = [message for message in check_format(tmp_path / name, "run.txt") if isinstance(message, str)]
        assert "correct format" in message
    assert len({(out / f"aragorn-{name}.txt").read_text().replace(name, "") for name in SYSTEMS}) == len(SYSTEMS)

    ensemble = read_config(checkpoints_copy / "ensemble", RegressionEnsemble)
    runs = {name: read_run(out / f"aragorn-{name}.txt") for name in (*ENSEMBLE_MEMBERS, "ensemble")}
    expected: dict[tuple[str, str], float] = {}
    rankings = [{(row.qid, row.docno): row.score for row in runs[m.name].itertuples()} for m in ensemble.members]
    for pair in set().union(*rankings):
        contributions = [
            m.coefficient * min(1, max(0, (ranking[pair] - m.minimum) / (m.maximum - m.minimum)))
            for m, ranking in zip(ensemble.members, rankings, strict=True)
            if pair in ranking
        ]
        expected[pair] = ensemble.intercept + sum(contributions)
    for row in runs["ensemble"].itertuples():
        assert row.score == pytest.approx(expected[row.qid, row.docno], abs=1e-5)
    assert set(runs["ensemble"]["qid"]) == {"1", "2", "3"}
    assert rank_all("alone", "--system", "ensemble") == 0
    name = "aragorn-ensemble.txt"
    assert set(read_files(tmp_path / "alone")) == {name, "run.txt", "fingerprint.json"}
    assert (tmp_path / "alone" / name).read_bytes() == (out / name).read_bytes()

    assert training(["overlap", str(out)]) == 0
    tables = {"jaccard.csv", "jaccard.png", "spearman.csv", "spearman.png", "spearman-topics.csv"}
    assert set(read_files(out / "analysis")) == tables
    jaccard = pd.read_csv(out / "analysis" / "jaccard.csv", index_col=0)
    assert sorted(jaccard.index) == sorted(SYSTEMS)
    assert (jaccard.to_numpy().diagonal() == 1).all()
    assert "spearman-topics" in capsys.readouterr().out

    corpus_file = corpus_with_topics / "args-me.json"
    arguments = json.loads(corpus_file.read_text())["arguments"][::-1]
    corpus_file.unlink()
    for name, part in (("idebate", arguments[::2]), ("debatewise", arguments[1::2])):
        (corpus_with_topics / f"{name}.json").write_text(json.dumps({"arguments": part}))
    assert rank_all("other") == 0
    for name in SYSTEMS:
        assert (tmp_path / "other" / f"aragorn-{name}.txt").read_bytes() == (out / f"aragorn-{name}.txt").read_bytes()


def test_failing_or_changed_network_fails_only_the_ensemble(
    rank_all: RankAll, checkpoints_copy: Path, tmp_path: Path, caplog: Log
) -> None:
    probe = checkpoints_copy / "drmm" / "probe.json"
    original = probe.read_bytes()
    probe.write_text("[]")
    assert rank_all() == 6
    runs = {name for name in read_files(tmp_path / "out") if name.startswith("aragorn-")}
    assert runs == {f"aragorn-{name}.txt" for name in SYSTEMS if name not in ("drmm", "ensemble")}
    assert "ensemble: failed" in caplog.text
    probe.write_bytes(original)
    write_tiny_ranker(checkpoints_copy, "gru", seed=99)
    assert rank_all("newer", "--system", "gru", "--system", "ensemble") == 6
    assert "fitted with other checkpoints of gru;" in caplog.text


def test_ensemble_names_all_missing_networks(
    all_checkpoints_dir: Path, prepared_work_dir: Path, tmp_path: Path, assert_fails: AssertFails
) -> None:
    shutil.copytree(all_checkpoints_dir / "knrm", tmp_path / "some" / "knrm")
    missing = "no checkpoint of gru, drmm, conv_knrm, vanilla_bert, cedr_drmm, cedr_knrm, snrm;"
    assert_fails(4, missing, "fuse", "ensemble", "--work-dir", prepared_work_dir, "--checkpoints", tmp_path / "some")


def test_texts_are_tokenised_once(rank_all: RankAll, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenised_texts: list[str] = []
    tokenise = WordTokeniser.tokenise_premise
    monkeypatch.setattr(
        WordTokeniser, "tokenise_premise", lambda self, text: tokenised_texts.append(text) or tokenise(self, text)
    )
    flags = [flag for name in ("gru", "knrm", "drmm", "conv_knrm") for flag in ("--system", name)]
    assert rank_all("out", *flags) == 0
    probes = PROBE_PAIRS + UNICODE_PROBE_PAIRS  # tokenised once for each of the four checkpoints
    assert len(tokenised_texts) - 4 * len(probes) == len(set(tokenised_texts)) - len(probes)


def test_cached_shards_and_indexes_are_reused(
    rank_all: RankAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints_copy: Path
) -> None:
    flags = ["--cache-dir", str(tmp_path / "work"), "--system", "knrm", "--system", "snrm"]
    assert rank_all("first", *flags) == 0
    for function in (
        "rankings.encode_rankings",
        "systems.neural.score_documents",
        "retrieval.latent._build_index",
        "data.args_me._to_frame",
    ):
        monkeypatch.setattr(f"submission.{function}", None)  # calling it fails
    assert rank_all("second", *flags) == 0
    assert read_files(tmp_path / "second") == read_files(tmp_path / "first")
    write_tiny_ranker(checkpoints_copy, "knrm", seed=50)  # scores of another checkpoint are not cached
    assert rank_all("third", *flags) == 6
    assert "aragorn-snrm.txt" in read_files(tmp_path / "third")
    assert "aragorn-knrm.txt" not in read_files(tmp_path / "third")


def test_cache_directory_is_locked_and_separates_inputs(
    rank_all: RankAll, corpus_with_topics: Path, tmp_path: Path, capsys: Capture
) -> None:
    flags = ["--cache-dir", str(tmp_path / "work"), "--system", "knrm", "--system", "snrm"]
    with CacheDirectory(tmp_path / "work", tmp_path):
        assert rank_all("first", *flags) == 5
    assert "in use by another process" in capsys.readouterr().err
    assert rank_all("first", *flags) == 0
    file = corpus_with_topics / "args-me.json"
    file.write_text(file.read_text().replace("topicaa", "topicab"))
    assert rank_all("second", *flags) == 0
    assert rank_all("fresh", *flags[2:]) == 0
    assert read_files(tmp_path / "second") == read_files(tmp_path / "fresh") != read_files(tmp_path / "first")


FORK_SERVER = """
import os, sys
from submission.__main__ import main
from submission import signals
from submission.models import rankers
for name in rankers.list_rankers():
    rankers.get_ranker_class(name)
for line in sys.stdin:  # fork a process per command line, after all imports
    if not (child := os.fork()):
        signals.install_handlers()
        sys.exit(main(line.split()))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.slow
def test_rank_resumes_after_random_kills(corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORK_SERVER], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        exit_codes = _kill_and_resume(server, corpus_with_topics, checkpoints_copy, tmp_path)
    assert server.returncode == 0
    assert read_files(tmp_path / "killed") == read_files(tmp_path / "whole")
    assert {-signal.SIGKILL, *SIGNAL_EXIT_CODES.values()} <= set(exit_codes)


def _kill_and_resume(server: subprocess.Popen[str], input_dir: Path, checkpoints: Path, tmp_path: Path) -> list[int]:
    """Rank once without and several times with an interruption, compare the runs, and return the exit codes of the latter."""
    assert server.stdin is not None
    assert server.stdout is not None

    def count_files(output: str) -> int:
        return sum(len(names) for directory in (output, f"{output}-work") for _, _, names in os.walk(tmp_path / directory))

    def rank(output: str, file_count: int | None = None, delay: float = 0, signal_number: int = signal.SIGKILL) -> int:
        """Send a signal `delay` seconds after `file_count` files exist; return the exit code, negative for a signal."""
        directories = f"-i {input_dir} -o {tmp_path / output} --cache-dir {tmp_path / output}-work --checkpoints {checkpoints}"
        print(f"rank {directories} --device cpu", file=server.stdin, flush=True)
        child = int(server.stdout.readline())
        if file_count is not None:
            deadline = time.monotonic() + 60
            while count_files(output) < file_count and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(delay)
            with suppress(ProcessLookupError):
                os.kill(child, signal_number)
        return int(server.stdout.readline())

    assert rank("whole") == 0
    total, rng, exit_codes = count_files("whole"), random.Random(7), []
    for attempt in range(9):
        if count_files("killed") > total - 5:  # little is left to interrupt, so start again
            shutil.rmtree(tmp_path / "killed")
            shutil.rmtree(tmp_path / "killed-work")
        file_count, delay = rng.randint(count_files("killed") + 1, total - 2), rng.uniform(0, 0.1)
        exit_codes.append(rank("killed", file_count, delay, (signal.SIGKILL, *SIGNAL_EXIT_CODES)[attempt % 3]))
        for file in (tmp_path / "killed").glob("aragorn-*.txt"):  # each run is complete or absent
            assert file.read_bytes() == (tmp_path / "whole" / file.name).read_bytes()
    assert rank("killed") == 0
    return exit_codes


@pytest.mark.slow
def test_rank_fails_on_a_full_disk_and_resumes(
    rank_all: RankAll, small_disk: Callable[[int], Path], tmp_path: Path, capsys: Capture
) -> None:
    assert rank_all("whole") == 0
    codes, run_names = [], [set[str]()]
    for kibibytes in (100, 400, 1600, 100_000):
        cache_dir = small_disk(kibibytes) / "cache"
        codes.append(rank_all("out", "--cache-dir", str(cache_dir)))
        if codes[-1]:
            error = capsys.readouterr().err.splitlines()[-1]
            assert "cannot be written" in error
            assert "free disk space or choose another" in error
        run_names.append({name for name in read_files(tmp_path / "out") if name.startswith("aragorn-")})
        assert run_names[-2] <= run_names[-1]
    assert codes == [5, 5, 5, 0]
    assert read_files(tmp_path / "out") == read_files(tmp_path / "whole")
