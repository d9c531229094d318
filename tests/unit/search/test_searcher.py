from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from submission.engine.engine import CPU
from submission.paths import CHECKPOINTS
from submission.search.answer import Answer
from submission.search.corpus import Corpus
from submission.search.searcher import REMEMBERED, Searcher, Wish
from submission.search.server import SearchServer
from submission.systems.catalogue import find
from submission.systems.remembered import Checkpoints
from tests.conftest import SAMPLE

QUESTIONS = [f"Should {what} be banned?" for what in ("zoos", "cars", "smoking", "gambling", "voting", "advertising")]


def searcher(work: Path | None = None) -> Searcher:
    return Searcher(Corpus.of_directory(SAMPLE), Checkpoints(CHECKPOINTS), CPU, work)


def test_what_goes_with_a_question_is_removed_when_it_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with searcher() as opened:
        for number in range(3 * REMEMBERED):
            opened.ask(f"zoos {number}", [find("dirichlet")], Wish())
            assert len(list(tmp_path.iterdir())) == min(number + 1, REMEMBERED) + 1  # and the indexes'
    assert list(tmp_path.iterdir()) == []


def test_what_was_asked_a_moment_ago_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with searcher() as opened:
        first = opened.ask(QUESTIONS[0], [find("bm25_rm3")], Wish())
        monkeypatch.setattr("submission.systems.lexical.searched", None)
        again = opened.ask(QUESTIONS[0], [find("bm25_rm3")], Wish(10, lambda system, docno: True))
        assert [found.docno for found in again.systems[0].found[:5]] == [found.docno for found in first.systems[0].found]
        with pytest.raises(TypeError):
            opened.ask(QUESTIONS[1], [find("bm25_rm3")], Wish())


def test_browsers_that_ask_at_the_same_time_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, asked = Searcher.ask, []

    def alone_ask(*arguments: Any) -> Answer:
        asked.append(arguments)
        time.sleep(0.01)
        assert len(asked) == 1
        try:
            return ask(*arguments)
        finally:
            asked.clear()

    monkeypatch.setattr(Searcher, "ask", alone_ask)
    with searcher() as opened, SearchServer(opened, [find("dirichlet")], 5, 0) as server:
        queries = [f"q={question}" for question in QUESTIONS]
        alone = [server.answered(query)[1].partition(" s</p>")[2] for query in queries]
        with ThreadPoolExecutor(6) as pool:
            together = list(pool.map(server.answered, queries * 5))
    assert [text.partition(" s</p>")[2] for _, text in together] == alone * 5
    assert len(set(alone)) == len(QUESTIONS)


def test_a_passage_has_one_of_the_words_where_its_text_has() -> None:
    with searcher() as opened:
        [answered] = opened.ask("Should zoos be abolished?", [find("dirichlet")], Wish(20)).systems
    for found in answered.found:
        texts = {found.premise[slice(*mark)].lower() for mark in found.passage.marks}
        assert texts <= {"zoos", "abolished"}
        within = {found.premise[slice(*mark)].lower() for mark in found.passage.within}
        assert bool(within) == bool(texts)
