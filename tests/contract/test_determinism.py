"""Contract of determinism: runs depend on neither engine nor threads, nor on the order of systems, arguments and files."""

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
from submission.systems.catalogue import SYSTEMS
from tests.conftest import read_files

pytestmark = pytest.mark.usefixtures("small_shards")


class RemoteEngine(LocalEngine):
    """An engine that pickles inputs and results, as for remote processes, and completes the last shard first."""

    def map(
        self, function: Callable[[Item], Result], items: Iterable[tuple[int, Item]], device: torch.device
    ) -> Iterator[tuple[int, Result]]:
        for pickled in [pickle.dumps((function, index, item)) for index, item in items][::-1]:
            unpickled, index, item = pickle.loads(pickled)
            yield index, pickle.loads(pickle.dumps(unpickled(item)))


def rank(source: Path, checkpoints: Path, output: Path, *systems: str) -> dict[str, bytes]:
    """Rank with systems, all by default, and return the files of the output."""
    flags = [flag for name in systems or SYSTEMS for flag in ("--system", name)]
    paths = ["-i", str(source), "-o", str(output), "--checkpoints", str(checkpoints)]
    assert main(["rank", *paths, "--device", "cpu", *flags]) == 0
    return read_files(output)


@pytest.fixture(scope="module")
def expected(
    small_shards: None, topics_and_corpus: Path, all_checkpoints_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """Rank with all systems, and return the files of the output."""
    files = rank(topics_and_corpus, all_checkpoints_dir, tmp_path_factory.mktemp("expected"))
    assert set(files) == {*map(run_name, SYSTEMS), "run.txt", "fingerprint.json"}
    return files


def run_name(system: str) -> str:
    return f"aragorn-{system}.txt"


def get_runs(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the runs of the systems."""
    return {name: content for name, content in files.items() if name.startswith("aragorn-")}


def test_engine_does_not_affect_runs_and_keys(
    expected: dict[str, bytes],
    topics_and_corpus: Path,
    all_checkpoints_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("submission.rank.open_engine", lambda *_: nullcontext(RemoteEngine()))
    assert rank(topics_and_corpus, all_checkpoints_dir, tmp_path / "out") == expected


def test_threads_do_not_affect_runs(
    expected: dict[str, bytes], topics_and_corpus: Path, all_checkpoints_dir: Path, tmp_path: Path
) -> None:
    threads, systems = torch.get_num_threads(), ("snrm", "sbert", "deepct_dirichlet", "targer_dirichlet", "dirichlet_rm3")
    try:
        torch.set_num_threads(2)
        files = rank(topics_and_corpus, all_checkpoints_dir, tmp_path / "out", *systems)
    finally:
        torch.set_num_threads(threads)
    assert get_runs(files) == {run_name(name): expected[run_name(name)] for name in systems}


def test_order_of_systems_does_not_affect_runs(
    expected: dict[str, bytes], topics_and_corpus: Path, all_checkpoints_dir: Path, tmp_path: Path
) -> None:
    files = rank(topics_and_corpus, all_checkpoints_dir, tmp_path / "reversed", *reversed(SYSTEMS))
    assert get_runs(files) == get_runs(expected)
    assert files["run.txt"] == expected[run_name([*SYSTEMS][-1])]


@pytest.mark.parametrize("name", ["gru", "sbert", "deepct_dirichlet", "tfr_bert", "ensemble"])
def test_systems_rank_alone_as_together(
    name: str, expected: dict[str, bytes], topics_and_corpus: Path, all_checkpoints_dir: Path, tmp_path: Path
) -> None:
    files = rank(topics_and_corpus, all_checkpoints_dir, tmp_path / "out", name)
    assert get_runs(files) == {run_name(name): expected[run_name(name)]}


def test_order_of_arguments_and_files_does_not_affect_runs(
    expected: dict[str, bytes], corpus_with_topics: Path, all_checkpoints_dir: Path, tmp_path: Path
) -> None:
    corpus_file = corpus_with_topics / "args-me.json"
    arguments = json.loads(corpus_file.read_text())["arguments"][::-1]
    corpus_file.unlink()
    for name, part in (("idebate", arguments[::2]), ("debatewise", arguments[1::2])):
        (corpus_with_topics / f"{name}.json").write_text(json.dumps({"arguments": part}))
    assert get_runs(rank(corpus_with_topics, all_checkpoints_dir, tmp_path / "out")) == get_runs(expected)
