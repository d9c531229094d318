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
from submission.systems.checkpoint_store import CheckpointStore
from tests.conftest import SAMPLE

QUESTIONS = [f"Should {topic} be banned?" for topic in ("zoos", "cars", "smoking", "gambling", "voting", "advertising")]


def searcher(work: Path | None = None) -> Searcher:
    return Searcher(Corpus.from_directory(SAMPLE), CheckpointStore(CHECKPOINT_DIR), CPU, work)


def test_files_of_a_query_are_deleted_when_it_is_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with searcher() as opened:
        for index in range(3 * CACHED_QUERIES):
            opened.search(f"zoos {index}", [get_system("dirichlet")], SearchOptions())
            assert len(list(tmp_path.iterdir())) == min(index + 1, CACHED_QUERIES) + 1  # and that of the indexes
    assert list(tmp_path.iterdir()) == []


def test_recent_queries_are_not_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    with searcher() as opened:
        first = opened.search(QUESTIONS[0], [get_system("bm25_rm3")], SearchOptions())
        monkeypatch.setattr("submission.systems.lexical.searched", None)
        again = opened.search(QUESTIONS[0], [get_system("bm25_rm3")], SearchOptions(10, lambda system, docno: True))
        assert [hit.docno for hit in again.systems[0].hits[:5]] == [hit.docno for hit in first.systems[0].hits]
        with pytest.raises(TypeError):
            opened.search(QUESTIONS[1], [get_system("bm25_rm3")], SearchOptions())


def test_concurrent_requests_are_processed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, running = Searcher.search, []

    def alone_ask(*arguments: Any) -> SearchResults:
        running.append(arguments)
        time.sleep(0.01)
        assert len(running) == 1
        try:
            return ask(*arguments)
        finally:
            running.clear()

    monkeypatch.setattr(Searcher, "search", alone_ask)
    with searcher() as opened, SearchServer(opened, [get_system("dirichlet")], 5, 0) as server:
        queries = [f"q={question}" for question in QUESTIONS]
        alone = [server.respond(query)[1].partition(" s</p>")[2] for query in queries]
        with ThreadPoolExecutor(6) as pool:
            together = list(pool.map(server.respond, queries * 5))
    assert [text.partition(" s</p>")[2] for _, text in together] == alone * 5
    assert len(set(alone)) == len(QUESTIONS)


def test_a_snippet_has_a_match_if_its_premise_has() -> None:
    with searcher() as opened:
        [results] = opened.search("Should zoos be abolished?", [get_system("dirichlet")], SearchOptions(20)).systems
    for hit in results.hits:
        matches = {hit.premise[slice(*match)].lower() for match in hit.snippet.matches}
        assert matches <= {"zoos", "abolished"}
        visible_matches = {hit.premise[slice(*match)].lower() for match in hit.snippet.visible_matches}
        assert bool(visible_matches) == bool(matches)
