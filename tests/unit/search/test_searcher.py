from __future__ import annotations

import tempfile
import time
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

QUERIES = [f"Should {topic} be banned?" for topic in ("zoos", "cars", "smoking", "gambling", "voting", "advertising")]


def make_searcher() -> Searcher:
    return Searcher(Corpus.from_directory(SAMPLE), CheckpointStore(CHECKPOINT_DIR), CPU)


def test_files_of_a_query_are_deleted_when_it_is_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with make_searcher() as searcher:
        for index in range(3 * CACHED_QUERIES):
            searcher.search(f"zoos {index}", [get_system("dirichlet")], SearchOptions())
            assert len(list(tmp_path.iterdir())) == min(index + 1, CACHED_QUERIES) + 1  # plus the directory of the indexes
    assert list(tmp_path.iterdir()) == []


def test_recent_queries_are_not_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    with make_searcher() as searcher:
        results = searcher.search(QUERIES[0], [get_system("bm25_rm3")], SearchOptions())
        monkeypatch.setattr("submission.systems.lexical.search_all", None)
        repeated = searcher.search(QUERIES[0], [get_system("bm25_rm3")], SearchOptions(10, lambda system, docno: True))
        assert [hit.docno for hit in repeated.systems[0].hits[:5]] == [hit.docno for hit in results.systems[0].hits]
        with pytest.raises(TypeError):
            searcher.search(QUERIES[1], [get_system("bm25_rm3")], SearchOptions())


def test_concurrent_requests_are_processed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    search, running = Searcher.search, []

    def search_and_detect_overlap(*arguments: Any) -> SearchResults:
        running.append(arguments)
        time.sleep(0.01)
        assert len(running) == 1
        try:
            return search(*arguments)
        finally:
            running.clear()

    monkeypatch.setattr(Searcher, "search", search_and_detect_overlap)
    with make_searcher() as searcher, SearchServer(searcher, [get_system("dirichlet")], 5, 0) as server:
        queries = [f"q={query}" for query in QUERIES]
        expected = [server.respond(query)[1].partition(" s</p>")[2] for query in queries]
        with ThreadPoolExecutor(6) as pool:
            pages = list(pool.map(server.respond, queries * 5))
    assert [text.partition(" s</p>")[2] for _, text in pages] == expected * 5
    assert len(set(expected)) == len(QUERIES)


def test_snippet_contains_a_match_if_the_premise_does() -> None:
    with make_searcher() as searcher:
        [results] = searcher.search("Should zoos be abolished?", [get_system("dirichlet")], SearchOptions(20)).systems
    for hit in results.hits:
        matches = {hit.premise[slice(*match)].lower() for match in hit.snippet.matches}
        assert matches <= {"zoos", "abolished"}
        visible_matches = {hit.premise[slice(*match)].lower() for match in hit.snippet.visible_matches}
        assert bool(visible_matches) == bool(matches)
