from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from submission.engine.base import CPU
from submission.paths import CHECKPOINTS
from submission.search.corpus import Corpus
from submission.search.results import Answer
from submission.search.searcher import REMEMBERED, Searcher, Wish
from submission.search.server import SearchServer
from submission.systems.catalogue import find
from submission.systems.checkpoint_store import Checkpoints
from tests.conftest import SAMPLE

QUESTIONS = [f"Should {topic} be banned?" for topic in ("zoos", "cars", "smoking", "gambling", "voting", "advertising")]


def searcher(work: Path | None = None) -> Searcher:
    return Searcher(Corpus.of_directory(SAMPLE), Checkpoints(CHECKPOINTS), CPU, work)


def test_files_of_a_query_are_deleted_when_it_is_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with searcher() as opened:
        for index in range(3 * REMEMBERED):
            opened.ask(f"zoos {index}", [find("dirichlet")], Wish())
            assert len(list(tmp_path.iterdir())) == min(index + 1, REMEMBERED) + 1  # and that of the indexes
    assert list(tmp_path.iterdir()) == []


def test_recent_queries_are_not_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    with searcher() as opened:
        first = opened.ask(QUESTIONS[0], [find("bm25_rm3")], Wish())
        monkeypatch.setattr("submission.systems.lexical.searched", None)
        again = opened.ask(QUESTIONS[0], [find("bm25_rm3")], Wish(10, lambda system, docno: True))
        assert [hit.docno for hit in again.systems[0].found[:5]] == [hit.docno for hit in first.systems[0].found]
        with pytest.raises(TypeError):
            opened.ask(QUESTIONS[1], [find("bm25_rm3")], Wish())


def test_concurrent_requests_are_processed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, running = Searcher.ask, []

    def alone_ask(*arguments: Any) -> Answer:
        running.append(arguments)
        time.sleep(0.01)
        assert len(running) == 1
        try:
            return ask(*arguments)
        finally:
            running.clear()

    monkeypatch.setattr(Searcher, "ask", alone_ask)
    with searcher() as opened, SearchServer(opened, [find("dirichlet")], 5, 0) as server:
        queries = [f"q={question}" for question in QUESTIONS]
        alone = [server.answered(query)[1].partition(" s</p>")[2] for query in queries]
        with ThreadPoolExecutor(6) as pool:
            together = list(pool.map(server.answered, queries * 5))
    assert [text.partition(" s</p>")[2] for _, text in together] == alone * 5
    assert len(set(alone)) == len(QUESTIONS)


def test_a_snippet_has_a_match_if_its_premise_has() -> None:
    with searcher() as opened:
        [results] = opened.ask("Should zoos be abolished?", [find("dirichlet")], Wish(20)).systems
    for hit in results.found:
        matches = {hit.premise[slice(*match)].lower() for match in hit.passage.marks}
        assert matches <= {"zoos", "abolished"}
        visible_matches = {hit.premise[slice(*match)].lower() for match in hit.passage.within}
        assert bool(visible_matches) == bool(matches)
