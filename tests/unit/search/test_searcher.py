"""Tests of the selected systems, of temporary files, and of concurrent requests."""

import re
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch

from submission.engine.base import CPU
from submission.paths import CHECKPOINT_DIR
from submission.search import load_system
from submission.search.cli import DEFAULT_LEXICAL_SYSTEM, choose_systems
from submission.search.corpus import Corpus
from submission.search.searcher import MAX_CACHED_QUERIES, Searcher, SearchOptions
from submission.systems.catalogue import get_system
from submission.systems.execution import CheckpointStore
from tests.conftest import PREMISE, SAMPLE

GPU = torch.device("cuda")


def choose_system_names(
    names: list[str], device: torch.device, checkpoints: Path = CHECKPOINT_DIR, cache_dir: Path | None = None
) -> tuple[list[str], str]:
    with Searcher(Corpus.from_paths(SAMPLE), CheckpointStore(checkpoints), device, cache_dir) as searcher:
        systems, message = choose_systems(names, searcher, device)
    return [system.name for system in systems], message


def test_default_is_fusion_if_it_is_fast(tmp_path: Path) -> None:
    assert choose_system_names(["bm25", "gru", "bm25"], CPU) == (["bm25", "gru"], "")
    assert choose_system_names([], GPU) == (["fusion"], "Using fusion (default). Choose another with --system NAME.")
    names, message = choose_system_names([], CPU)
    command = f"./run.sh index -i {SAMPLE} --cache-dir DIR"
    assert (names, f"fusion takes seconds per query until `{command}` has" in message) == ([DEFAULT_LEXICAL_SYSTEM], True)
    names, message = choose_system_names([], GPU, tmp_path)
    assert (names, "GPU" in message) == ([DEFAULT_LEXICAL_SYSTEM], False)
    assert re.search(r"best lexical system: fusion: checkpoint \w+.* not found\. Choose another with --system NAME", message)


QUERIES = [f"Should {topic} be banned?" for topic in ("zoos", "cars", "smoking", "voting")]


def test_files_of_a_query_are_deleted_when_it_is_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Searcher(Corpus.from_paths(SAMPLE), CheckpointStore(CHECKPOINT_DIR), CPU) as searcher:
        for index in range(2 * MAX_CACHED_QUERIES + 1):
            searcher.search(f"zoos {index}", [get_system("dirichlet")], SearchOptions())
            assert len(list(tmp_path.iterdir())) == min(index + 1, MAX_CACHED_QUERIES) + 1  # plus the directory of indexes
    assert list(tmp_path.iterdir()) == []


ASK: dict[str, Callable[[], Callable[[str], object]]] = {  # functions whose first uses are concurrent
    "index of bm25": lambda: load_system("bm25", device="cpu").index(SAMPLE).search,
    "index of dirichlet": lambda: load_system("dirichlet", device="cpu").index(SAMPLE).search,
    "index of snrm": lambda: load_system("snrm", device="cpu").index(SAMPLE).search,
    "system": lambda: partial(load_system("dirichlet_rm3", device="cpu").search, [f"{query} {PREMISE}" for query in QUERIES]),
}


@pytest.mark.parametrize("name", ASK)
def test_threads_get_the_results_of_a_single_thread(name: str) -> None:
    ask = ASK[name]()
    with ThreadPoolExecutor(8) as pool:
        answers = [str(answer) for answer in pool.map(ask, QUERIES * 2)]
    expected = [str(ask(query)) for query in QUERIES]
    assert answers == expected * 2
    assert len(set(expected)) == len(QUERIES)
