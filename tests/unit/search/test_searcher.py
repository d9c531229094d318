"""Tests of the selected systems, of temporary files, and of concurrent requests."""

import re
import tempfile
from collections.abc import Callable, Iterator
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
from submission.search.server import SearchServer
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


def test_named_systems_are_selected_once() -> None:
    assert choose_system_names(["bm25", "gru", "bm25"], CPU) == (["bm25", "gru"], "")


def test_default_is_fusion_if_it_is_fast(tmp_path: Path) -> None:
    assert choose_system_names([], GPU) == (["fusion"], "Using fusion (default). Choose another with --system NAME.")
    names, message = choose_system_names([], CPU)
    command = f"./run.sh index -i {SAMPLE} --cache-dir DIR"
    assert (names, f"fusion takes seconds per query until `{command}` has" in message) == ([DEFAULT_LEXICAL_SYSTEM], True)
    names, message = choose_system_names([], GPU, tmp_path)
    assert (names, "GPU" in message) == ([DEFAULT_LEXICAL_SYSTEM], False)
    assert re.search(r"best lexical system: fusion: checkpoint \w+.* not found\. Choose another with --system NAME", message)


QUERIES = [f"Should {topic} be banned?" for topic in ("zoos", "cars", "smoking", "voting")]
DIRICHLET = [get_system("dirichlet")]


@pytest.fixture
def searcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Searcher]:
    """Open a searcher of the sample, and check that it deletes its temporary files at the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Searcher(Corpus.from_paths(SAMPLE), CheckpointStore(CHECKPOINT_DIR), CPU) as instance:
        yield instance
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_query_are_deleted_when_it_is_evicted(searcher: Searcher, tmp_path: Path) -> None:
    for index in range(2 * MAX_CACHED_QUERIES + 1):
        searcher.search(f"zoos {index}", DIRICHLET, SearchOptions())
        assert len(list(tmp_path.iterdir())) == min(index + 1, MAX_CACHED_QUERIES) + 1  # plus the directory of the indexes


def ask_page(searcher: Searcher) -> Callable[[str], object]:
    server = SearchServer(searcher, DIRICHLET, 5, 0)
    server.server_close()
    return lambda query: server.respond(f"q={query}")[1].partition(" s</p>")[2]


ASK: dict[str, Callable[[Searcher], Callable[[str], object]]] = {  # functions whose first uses are concurrent
    "page": ask_page,
    "searcher": lambda searcher: lambda query: searcher.search(query, DIRICHLET, SearchOptions()).system_results[0].hits,
    "index of bm25": lambda _: load_system("bm25", device="cpu").index(SAMPLE).search,
    "index of dirichlet": lambda _: load_system("dirichlet", device="cpu").index(SAMPLE).search,
    "index of snrm": lambda _: load_system("snrm", device="cpu").index(SAMPLE).search,
    "system": lambda _: partial(load_system("dirichlet_rm3", device="cpu").search, [f"{query} {PREMISE}" for query in QUERIES]),
}


@pytest.mark.parametrize("name", ASK)
def test_threads_get_the_results_of_a_single_thread(name: str, searcher: Searcher) -> None:
    ask = ASK[name](searcher)
    with ThreadPoolExecutor(8) as pool:
        answers = [str(answer) for answer in pool.map(ask, QUERIES * 2)]
    expected = [str(ask(query)) for query in QUERIES]
    assert answers == expected * 2
    assert len(set(expected)) == len(QUERIES)
