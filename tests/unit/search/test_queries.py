"""Tests that unusual queries lead to results or a clear error, be it in a terminal, as JSON or in a browser."""

# ruff: noqa: RUF001 look-alike characters are intended

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from urllib.parse import quote

import pytest
from rich.console import Console

from submission.engine.base import CPU
from submission.errors import UsageError
from submission.paths import CHECKPOINT_DIR
from submission.search.corpus import Corpus
from submission.search.results import to_json
from submission.search.searcher import Searcher, SearchOptions
from submission.search.server import SearchServer
from submission.search.terminal import render
from submission.systems.catalogue import get_system
from submission.systems.execution import CheckpointStore
from tests.conftest import SAMPLE, ParsedPage

SYSTEMS = [get_system("dirichlet_rm3"), get_system("bm25")]
UNPRINTABLE = {chr(code) for code in (*range(10), *range(11, 27), *range(28, 32), 127, 0x202E, 0x9B)}
QUERIES = [
    "", "\n", "\0", "?", "the of and", "'", '"', "\\", "%00", "&amp;", "<b>zoos</b>", "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>', "<!--", "<![CDATA[", "{{7*7}}", "%s%n%d", "{}", "'; drop table documents; --",
    "zoos\0cages", "\x1b[2J\x1b[31mzoos", "\x9b31m", "\r overwritten", "\u202ezoos", "\u200bzoos\u200b", "\u2028\u2029",
    "\ufffe\uffff", "\ud800", "\udc80" * 50, "z" + "\u0301" * 1000, "ẛ̣", "İI ıi", "ﬁne zoos", "①②③",
    "动物园应该被废除吗?", "هل يجب إغلاق حدائق الحيوان؟", "คุณคิดว่า", "👩‍👩‍👧‍👦", "🦁" * 500, "zoos " * 2_000, "z" * 9_999,
    "z" * 100_000, "word%d " * 1_400, "--system", "@file", "a\tb\tc", "d'd'd'd'd", "____zoos____", "\u00adzo\u00ados",
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[SearchServer]:
    """Return a server that is called in this process."""
    with (
        Searcher(Corpus.from_directory(SAMPLE), CheckpointStore(CHECKPOINT_DIR), CPU) as searcher,
        SearchServer(searcher, SYSTEMS, 3, 0) as instance,
    ):
        yield instance


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: ascii(query)[1:25])
def test_unusual_queries_give_results_or_errors(query: str, server: SearchServer) -> None:
    status, page = server.respond(f"q={quote(query, errors='surrogatepass')}&explain=bm25 x&system=bm25&system=dirichlet_rm3")
    parsed = ParsedPage(page)
    assert not {"script", "img", "svg", "style", "iframe", "object"} & set(parsed.elements)
    assert parsed.elements.count("title") == 1
    if status != 200 or not query.strip():
        assert status == (400 if query.strip() else 200)
        with pytest.raises(UsageError, match=r"^(empty query; enter at least one word|query has [0-9]+ characters)"):
            server.searcher.search(query, SYSTEMS, SearchOptions())
        return
    results = server.searcher.search(query, SYSTEMS, SearchOptions(3, lambda system, docno: True))
    for is_coloured, width in ((False, 20), (True, 100)):
        file = StringIO()
        render(results, 461, Console(file=file, width=width, force_terminal=is_coloured, markup=False, highlight=False))
        text = file.getvalue()
        assert not set(text.encode().decode()) & UNPRINTABLE
        assert is_coloured or "\x1b" not in text
    line = to_json(results)
    assert (line.isascii(), line.count("\n"), json.loads(line)["query"]) == (True, 1, results.query)
    page.encode()
