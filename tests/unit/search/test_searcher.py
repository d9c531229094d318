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
    """Open the sample, with temporary files in an empty directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Searcher(Corpus.from_directory(SAMPLE), CheckpointStore(CHECKPOINT_DIR), CPU) as instance:
        yield instance
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_query_are_deleted_when_it_is_evicted(searcher: Searcher, tmp_path: Path) -> None:
    for index in range(2 * CACHED_QUERIES + 1):
        searcher.search(f"zoos {index}", DIRICHLET, SearchOptions())
        assert len(list(tmp_path.iterdir())) == min(index + 1, CACHED_QUERIES) + 1  # plus the directory of the indexes


def test_recent_queries_are_not_recomputed(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    systems = [get_system("bm25_rm3")]
    results = searcher.search(QUERIES[0], systems, SearchOptions())
    monkeypatch.setattr("submission.systems.lexical.search_all", None)  # calling it fails
    repeated = searcher.search(QUERIES[0], systems, SearchOptions(10, lambda system, docno: True))
    assert [hit.docno for hit in repeated.systems[0].hits[:5]] == [hit.docno for hit in results.systems[0].hits]
    with pytest.raises(TypeError):
        searcher.search(QUERIES[1], systems, SearchOptions())


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


def test_snippet_contains_a_match_if_the_premise_does(searcher: Searcher) -> None:
    [results] = searcher.search("Should zoos be abolished?", DIRICHLET, SearchOptions(20)).systems
    for hit in results.hits:
        matches = {hit.premise[slice(*match)].lower() for match in hit.snippet.matches}
        assert matches <= {"zoos", "abolished"}
        assert bool(hit.snippet.visible_matches) == bool(matches)
