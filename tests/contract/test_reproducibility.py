"""Tests that results depend on neither engine, threads nor order, and are repaired."""

import io
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import time
from contextlib import nullcontext, suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from ray import cloudpickle

from aragorn.__main__ import main
from aragorn.cache import CHECKSUMS_FILE
from aragorn.engine import Engine
from tests.conftest import assert_runs, read_files, write_tiny_ranker
from tests.contract.conftest import KINDS
from tests.contract.input_files import DEEP

pytestmark = pytest.mark.usefixtures("small_shards")
FORK = get_context("fork")


class Ranking:
    """A `rank` command whose output and cache are in one directory."""

    def __init__(self, directory, source, checkpoints):
        self.directory = directory
        self.output = directory / "out"
        self.cache = directory / "cache"
        self.paths = ["-i", str(source), "--checkpoints", str(checkpoints), "--device", "cpu"]

    def rank(self, *systems):
        """Rank with systems (default: one of each kind), and return the output files by name."""
        flags = [flag for name in systems or KINDS for flag in ("--system", name)]
        assert_runs(main, "rank", *self.paths, "-o", self.output, "--cache-dir", self.cache, *flags)
        return read_files(self.output)

    def clear(self):
        """Delete the output and the cache."""
        shutil.rmtree(self.output)
        shutil.rmtree(self.cache)

    def read_cache(self):
        """Map the path of each cached file whose rows have a fixed order to its content."""
        files = read_files(self.cache).items()
        any_order = ("documents-", "vectors-")
        return {name: content for name, content in files if not name.startswith(any_order)}


@pytest.fixture(scope="module")
def complete(small_shards, topics_and_corpus, all_checkpoints_dir, tmp_path_factory):
    """Rank with a system of each kind, for tests that only read the output and cache."""
    ranking = Ranking(tmp_path_factory.mktemp("complete"), topics_and_corpus, all_checkpoints_dir)
    assert len(ranking.rank()) == len(KINDS) + 2
    return ranking


@pytest.fixture
def copy(complete, topics_and_corpus, all_checkpoints_dir, tmp_path):
    """Copy the output and cache of `complete`, for tests that change them."""
    shutil.copytree(complete.directory, tmp_path / "copy")
    return Ranking(tmp_path / "copy", topics_and_corpus, all_checkpoints_dir)


@pytest.fixture
def fresh(topics_and_corpus, all_checkpoints_dir, tmp_path):
    """Return the command of `complete` with an empty output and cache."""
    return Ranking(tmp_path / "fresh", topics_and_corpus, all_checkpoints_dir)


class RemoteEngine(Engine):
    """Local engine that pickles shards and results, and completes shards in reverse order.

    With a shared cache directory, its workers write the results, and send only that they did.
    """

    def __init__(self, shares_cache):
        self.shares_cache = shares_cache
        self.result_sizes = []

    def map(self, function, items, device):
        for pickled in [cloudpickle.dumps((function, index, item)) for index, item in items][::-1]:
            unpickled, index, item = pickle.loads(pickled)
            result = cloudpickle.dumps(unpickled(item))
            self.result_sizes.append(len(result))
            yield index, pickle.loads(result)


@pytest.mark.parametrize("shares_cache", [False, True])
def test_engine_does_not_affect_results(shares_cache, complete, fresh, monkeypatch):
    engine = RemoteEngine(shares_cache)
    monkeypatch.setattr("aragorn.rank.open_engine", lambda *_: nullcontext(engine))
    assert fresh.rank() == read_files(complete.output)
    assert fresh.read_cache() == complete.read_cache()
    assert (min(engine.result_sizes) < 100) == shares_cache


@pytest.mark.parametrize(
    ("systems", "threads"),
    [(("snrm", "sbert"), 2), (KINDS[::-1], 1), (("gru",), 1)],
    ids=["threads", "reversed", "alone"],
)
def test_threads_and_other_systems_do_not_affect_runs(systems, threads, complete, fresh):
    try:
        torch.set_num_threads(threads)
        files = fresh.rank(*systems)
    finally:
        torch.set_num_threads(1)
    runs = {f"aragorn-{name}.txt" for name in systems}
    expected = read_files(complete.output)
    assert {name: files[name] for name in runs} == {name: expected[name] for name in runs}
    assert files["run.txt"] == files[f"aragorn-{systems[0]}.txt"]


def rank_as_expected(ranking, systems, expected):
    files = ranking.rank(*systems)
    for name in (f"aragorn-{system}.txt" for system in systems):
        assert files[name] == expected[name]


def test_processes_share_a_cache_directory(
    complete, topics_and_corpus, all_checkpoints_dir, tmp_path
):
    expected = read_files(complete.output)
    processes = []
    for name, systems in (("all", KINDS), ("one", ("gru", "sbert")), ("other", ("snrm", "sbert"))):
        ranking = Ranking(tmp_path / name, topics_and_corpus, all_checkpoints_dir)
        ranking.cache = tmp_path / "cache"
        arguments = ranking, systems, expected
        processes.append(FORK.Process(target=rank_as_expected, args=arguments))
        processes[-1].start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)
    expected = complete.read_cache()
    assert Ranking(tmp_path, topics_and_corpus, all_checkpoints_dir).read_cache() == expected


def test_order_of_arguments_and_files_does_not_affect_runs(
    complete, corpus_with_topics, all_checkpoints_dir, tmp_path
):
    corpus_file = corpus_with_topics / "args-me.json"
    expected = read_files(complete.output)
    arguments = json.loads(corpus_file.read_text())["arguments"][::-1]
    corpus_file.unlink()
    for name, part in (("idebate", arguments[::2]), ("debatewise", arguments[1::2])):
        (corpus_with_topics / f"{name}.json").write_text(json.dumps({"arguments": part}))
    files = Ranking(tmp_path / "reordered", corpus_with_topics, all_checkpoints_dir).rank()
    assert files | {"fingerprint.json": expected["fingerprint.json"]} == expected


@pytest.mark.parametrize("name", KINDS)
def test_stopped_systems_resume(name, complete, fresh):
    """Stop the first execution before it renames a third file, the second before a fifth …."""
    replace = Path.replace
    renames = 0
    stops = 0

    def replace_or_stop(old, new):
        nonlocal renames, stops
        renames += 1
        if renames > 2 + 2 * stops:
            renames = 0
            stops = stops + 1
            raise KeyboardInterrupt
        return replace(old, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", replace_or_stop)
        while not (fresh.output / "ir-metadata.yml").exists():
            with suppress(KeyboardInterrupt):
                fresh.rank(name)
    assert stops >= 2
    run = f"aragorn-{name}.txt"
    expected = complete.read_cache()
    assert read_files(fresh.output)[run] == read_files(complete.output)[run]
    assert fresh.read_cache() == {file: expected[file] for file in fresh.read_cache()}


@pytest.mark.slow
def test_killed_executions_resume(complete, fresh):
    """Kill executions at random times; start again from nothing when one is finished."""
    n_kills = int(os.environ.get("KILLS", "12"))  # 200 search more thoroughly
    rng = random.Random(0)
    expected = read_files(complete.output)
    started = time.monotonic()
    assert fresh.rank() == expected
    duration = time.monotonic() - started
    fresh.clear()
    n_killed = 0
    while n_killed < n_kills:
        process = FORK.Process(target=fresh.rank)
        process.start()
        process.join(rng.uniform(0, duration))
        if process.exitcode is None:
            os.kill(process.pid or 0, signal.SIGTERM if n_killed % 2 else signal.SIGKILL)
            process.join()
            n_killed += 1
        else:
            assert process.exitcode == 0
            assert read_files(fresh.output) == expected
            fresh.clear()
    assert fresh.rank() == expected
    assert fresh.read_cache() == complete.read_cache()
    assert not [*fresh.output.glob(".*")]


def reverse(file):
    """Reverse the rows of an array file (.npy), or the bytes of a file of another type."""
    if file.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, np.load(file)[::-1].copy())
        file.write_bytes(buffer.getvalue())
    else:
        file.write_bytes(file.read_bytes()[::-1])


def link(file):
    """Replace a file by a link to a copy of it."""
    target = file.rename(file.parents[2] / f"{file.parent.name}-{file.name}")
    file.symlink_to(target)


DAMAGES = {
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-3]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "a bit": lambda file: file.write_bytes(
        file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1])
    ),
    "reversed": reverse,
    "missing": Path.unlink,
    "a FIFO": lambda file: (file.unlink(), os.mkfifo(file)),
    "a directory": lambda file: (file.unlink(), (file / "foreign").mkdir(parents=True)),
    "a link": link,
    "endless": lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
}


CONTENTS = ("", "[]", "null", "{}", "\udcff", '{"lengths.npy": 7}', DEEP)


RESULTS = {  # files; damages; part of the log
    "files": ("cache/**/*", [*DAMAGES.values()], "checksum mismatch; rebuilding it"),
    # a directory in the place of a run is not replaced
    "runs": ("out/aragorn-*.txt", [DAMAGES[kind] for kind in DAMAGES if kind != "a directory"], ""),
    "checksums": (
        "cache/*/checksums.json",
        [partial(Path.write_text, data=text, errors="surrogateescape") for text in CONTENTS],
        "",
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_damaged_results_are_rebuilt(name, complete, copy, caplog):
    """Damage files in turn; delete runs that are intact, so that the cache is read."""
    results, damages, message = RESULTS[name]
    files = sorted(copy.directory.glob(results))
    damaged = []
    for file, damage in zip(files, itertools.cycle(damages), strict=False):
        if file.is_file() and (name == "checksums" or file.name != CHECKSUMS_FILE):
            damage(file)
            damaged += [] if damage == Path.unlink else [file]
    if name == "checksums":  # read the files
        for file in copy.cache.glob("ranking-*/*"):
            file.unlink()
    if name != "runs":
        shutil.rmtree(copy.output)
    assert copy.rank() == read_files(complete.output)
    assert copy.read_cache() == complete.read_cache()
    assert message in caplog.text
    if name == "files":
        assert [file for file in damaged if file.parent.name not in caplog.text] == []
        assert not any(file.is_symlink() for file in damaged)


@pytest.mark.parametrize("kind", ["topics", "corpus", "checkpoint"])
def test_results_of_other_inputs_are_not_used(
    kind, complete, copy, corpus_with_topics, checkpoints_copy, tmp_path
):
    if kind == "checkpoint":
        for seed, name in enumerate(("knrm", "gru", "snrm", "sbert")):
            write_tiny_ranker(checkpoints_copy, name, 50 + seed)
    else:
        corpus = corpus_with_topics / "args-me.json"
        file = corpus if kind == "corpus" else corpus_with_topics / "topics.xml"
        words = json.loads(corpus.read_text())["arguments"][0]["conclusion"].split()
        file.write_text(file.read_text().replace(words[0], words[1]))
    systems = {"checkpoint": KINDS[:4], "topics": KINDS[1::2], "corpus": KINDS[:-1:2]}[kind]
    shutil.rmtree(copy.output)
    copied, fresh = (
        Ranking(directory, corpus_with_topics, checkpoints_copy).rank(*systems)
        for directory in (copy.directory, tmp_path / "fresh")
    )
    assert copied == fresh
    old = read_files(complete.output)
    assert all(copied[run] != old[run] for run in (f"aragorn-{name}.txt" for name in systems))


def test_complete_results_are_reused(complete, copy, monkeypatch):
    for function in (
        "pipeline.retrieval.encode_rankings", "inference.pair_scoring.PairScorer", "inference.enrichment.enrich_texts",
        "systems.latent.encode_shard", "systems.lexical.write_index", "index.dense._encode_missing", "io.touche.read_arguments",
    ):  # fmt: skip
        monkeypatch.setattr(f"aragorn.{function}", None)  # a call would fail
    shutil.rmtree(copy.output)
    assert copy.rank() == read_files(complete.output)
