from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from submission.engine.base import CPU
from submission.paths import CHECKPOINT_DIR
from submission.search.corpus import Corpus
from submission.search.results import SearchResults
from submission.search.searcher import CACHED_QUERIES, Searcher, SearchOptions
from submission.search.server import SearchServer
from submission.systems.catalogue import get_system
from submission.systems.execution import CheckpointStore
from tests.conftest import SAMPLE

QUERIES = [f"Should {topic} be banned?" for topic in ("zoos", "cars", "smoking", "voting")]
DIRICHLET = [get_system("dirichlet")]


@pytest.fixture
def searcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Searcher]:
    """Open a searcher of the sample, and check that it deletes its temporary files at the end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Searcher(Corpus.from_directory(SAMPLE), CheckpointStore(CHECKPOINT_DIR), CPU) as instance:
        yield instance
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_query_are_deleted_when_it_is_evicted(searcher: Searcher, tmp_path: Path) -> None:
    for index in range(2 * CACHED_QUERIES + 1):
        searcher.search(f"zoos {index}", DIRICHLET, SearchOptions())
        assert len(list(tmp_path.iterdir())) == min(index + 1, CACHED_QUERIES) + 1  # plus the directory of the indexes


def test_concurrent_requests_are_processed_one_by_one(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    search, lock = Searcher.search, threading.Lock()

    def search_alone(*arguments: Any) -> SearchResults:
        assert lock.acquire(blocking=False)
        try:
            return search(*arguments)
        finally:
            lock.release()

    monkeypatch.setattr(Searcher, "search", search_alone)
    with SearchServer(searcher, DIRICHLET, 5, 0) as server:
        queries = [f"q={query}" for query in QUERIES]
        expected = [server.respond(query)[1].partition(" s</p>")[2] for query in queries]
        with ThreadPoolExecutor(4) as pool:
            pages = list(pool.map(server.respond, queries * 3))
    assert [text.partition(" s</p>")[2] for _, text in pages] == expected * 3
    assert len(set(expected)) == len(QUERIES)
