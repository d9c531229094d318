"""Tests that unusual queries lead to results or a clear error, be it in a terminal, as JSON, at a prompt or in a browser."""

# ruff: noqa: RUF001 look-alike characters are intended

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, StringIO, TextIOWrapper
from urllib.parse import quote

import pytest
from rich.console import Console

from submission.__main__ import main
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
from tests.conftest import ROOT, SAMPLE, ParsedPage

SYSTEMS = [get_system("dirichlet_rm3"), get_system("bm25")]
UNPRINTABLE = {chr(code) for code in (*range(10), *range(11, 27), *range(28, 32), 127, 0x202E, 0x9B)}
QUERIES = [
    "", " ", "\n", "\t\r\n", "\0", "?", "!!!", "...", "the of and", "a", "'", "’", "``", '"', "\\", "/", "//", "%00",
    "%", "&", "&amp;", "<", ">", "<b>zoos</b>", "<script>alert(1)</script>", "</title><script>",
    '"><img src=x onerror=alert(1)>', "'><svg/onload=1>", "<!--", "-->", "]]>", "<![CDATA[", "javascript:alert(1)",
    "{{7*7}}", "${7*7}", "%s%n%d", "{0}", "{}", "$(reboot)", "`id`", "; ls", "' or 1=1 --",
    "'; drop table documents; --", "zoos\0cages", "\x1b[2J\x1b[31mzoos", "\x07\x08\x7f", "\x9b31m", "\r overwritten",
    "\u202ezoos", "\u2066zoos\u2069", "\u200bzoos\u200b", "\ufeffzoos", "\u2028\u2029", "\ufffe\uffff", "\U0010ffff",
    "\ud800", "\udfff\ud800", "zoo\udcff", "\udc80" * 50, "Zoo\u0308s", "e\u0301" * 200, "z" + "\u0301" * 1000, "ẛ̣",
    "İI ıi", "ß SS", "ﬁne zoos", "ｚｏｏｓ", "𝔷𝔬𝔬𝔰", "①②③", "١٢٣", "动物园应该被废除吗?", "動物園は廃止すべきか",
    "동물원을 폐지해야 합니까?", "هل يجب إغلاق حدائق الحيوان؟", "האם לסגור גני חיות?", "คุณคิดว่า",
    "Нужны ли зоопарки?", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "🦁" * 500, "zoos " * 2_000, "zoos " * 10_000, "z" * 9_999,
    "z" * 100_000, "word%d " * 1_400, " ".join(map(str, range(1_500))), "https://example.org/zoos?x=<y>", "1e999",
    "-1", "NaN", "inf", "None", "null", "true", "[]", "--system", "-i /etc/passwd", "@file", "../../etc/passwd",
    "C:\\CON", "a\tb\tc", "zoos\nzoos", "zoos\u0085zoos", "don't can't won't", "d'd'd'd'd", "_" * 300, "____zoos____",
    "zoos-cages-animals", "A" * 255, "ZOOS? ZOOS! ZOOS…", "“zoos” ‘cages’", "zoos,,,,;;;;::::", "°C µm ½ ²",
    "\u00adzo\u00ados", "\u180ezoos",
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
    for is_coloured, width in ((False, 20), (True, 100), (False, 200)):
        file = StringIO()
        render(results, 461, Console(file=file, width=width, force_terminal=is_coloured, markup=False, highlight=False))
        text = file.getvalue()
        assert not set(text.encode().decode()) & UNPRINTABLE
        assert is_coloured or "\x1b" not in text
    line = to_json(results)
    assert (line.isascii(), line.count("\n"), json.loads(line)["query"]) == (True, 1, results.query)
    page.encode()


def test_unusual_queries_at_prompt(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [query.replace("\n", " ").encode("utf-8", "surrogatepass") for query in QUERIES]
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"\n".join([*lines, b"Are zoos cruel?\n"]))))
    assert main(["search", "--system", "dirichlet", "--device", "cpu"]) == 0
    out, err = capfd.readouterr()
    assert "Traceback" not in err + out
    assert "error: query has " in err
    assert "Are zoos cruel?   461 arguments" in out


@pytest.mark.slow
@pytest.mark.parametrize(("query", "locale"), [(b"\xff\xfe zoos", "C"), (b"\xed\xa0\x80", "C.UTF-8")])
def test_query_bytes_on_command_line(query: bytes, locale: str) -> None:
    command = [sys.executable, "-m", "submission", "search", "--system", "bm25", "--device", "cpu", "--", query]
    environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment)
    assert (process.returncode, b"Traceback" in process.stderr) == (0, False), process.stderr
