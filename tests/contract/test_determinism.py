"""Tests that runs do not depend on the engine, the number of threads, or the order of systems, arguments and files."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from submission.__main__ import main
from submission.engine.base import Item, LocalEngine, Result
from tests.conftest import read_files
from tests.contract.conftest import KINDS

Rank = Callable[..., dict[str, bytes]]


class RemoteEngine(LocalEngine):
    """Local engine that pickles shards and results, as remote workers require, and completes the shards in reverse order."""

    def map(
        self, function: Callable[[Item], Result], items: Iterable[tuple[int, Item]], device: torch.device
    ) -> Iterator[tuple[int, Result]]:
        for pickled in [pickle.dumps((function, index, item)) for index, item in items][::-1]:
            unpickled, index, item = pickle.loads(pickled)
            yield index, pickle.loads(pickle.dumps(unpickled(item)))


@pytest.fixture(scope="module")
def rank(
    small_shards: None, topics_and_corpus: Path, all_checkpoints_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Rank:
    """Return a function that ranks with systems (default: one of each kind), and returns the output files by relative path."""

    def run(*systems: str, source: Path = topics_and_corpus) -> dict[str, bytes]:
        output = tmp_path_factory.mktemp("out")
        flags = [flag for name in systems or KINDS for flag in ("--system", name)]
        paths = ["-i", str(source), "-o", str(output), "--checkpoints", str(all_checkpoints_dir)]
        assert main(["rank", *paths, "--device", "cpu", *flags]) == 0
        return read_files(output)

    return run


@pytest.fixture(scope="module")
def expected(rank: Rank) -> dict[str, bytes]:
    return rank()


def test_engine_does_not_affect_runs_and_keys(rank: Rank, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submission.rank.open_engine", lambda *_: nullcontext(RemoteEngine()))
    assert rank() == expected
    assert set(expected) == {*(f"aragorn-{name}.txt" for name in KINDS), "run.txt", "fingerprint.json"}


@pytest.mark.parametrize(
    ("systems", "threads"),
    [(("snrm", "sbert"), 2), (KINDS[::-1], 1), (("gru",), 1)],
    ids=["threads", "reversed", "alone"],
)
def test_threads_and_other_systems_do_not_affect_runs(
    systems: tuple[str, ...], threads: int, rank: Rank, expected: dict[str, bytes]
) -> None:
    try:
        torch.set_num_threads(threads)
        files = rank(*systems)
    finally:
        torch.set_num_threads(1)
    runs = {f"aragorn-{name}.txt" for name in systems}
    assert {name: files[name] for name in runs} == {name: expected[name] for name in runs}
    assert files["run.txt"] == files[f"aragorn-{systems[0]}.txt"]


def test_order_of_arguments_and_files_does_not_affect_runs(
    rank: Rank, expected: dict[str, bytes], corpus_with_topics: Path
) -> None:
    corpus_file = corpus_with_topics / "args-me.json"
    arguments = json.loads(corpus_file.read_text())["arguments"][::-1]
    corpus_file.unlink()
    for name, part in (("idebate", arguments[::2]), ("debatewise", arguments[1::2])):
        (corpus_with_topics / f"{name}.json").write_text(json.dumps({"arguments": part}))
    assert rank(source=corpus_with_topics) | {"fingerprint.json": expected["fingerprint.json"]} == expected
