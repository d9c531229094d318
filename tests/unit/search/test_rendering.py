"""Tests of results rendered as a page and in a terminal."""

import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from aragorn.errors import CheckpointError
from aragorn.explanation import Explanation, Highlight, Row
from aragorn.io.document_store import ArgumentMetadata
from aragorn.search.page import PageParams, SiteSettings, render_results
from aragorn.search.results import Hit, SearchResults, SystemResults
from aragorn.search.snippets import Snippet, Span, compile_word_pattern
from aragorn.search.terminal import print_results
from aragorn.text.normalisation import sanitise
from tests.conftest import ParsedPage

SITE = SiteSettings("sample", ["bm25"], ["zoos?"])


def make_hit(text, stance):
    snippet = Snippet(Span(len(text) // 4, len(text)), [Span(0, len(text) // 3)])
    highlights = [Highlight(len(text) // 3, len(text) // 2, "claim")]
    explanation = Explanation(1.0, [Row(1.0, text, text), Row(0.0, "zero")], text)
    return Hit(
        1, 1.0, text, ArgumentMetadata(stance, text), text, text, snippet, highlights, explanation
    )


def render_text(text):
    failed = SystemResults("gru", error=CheckpointError(text))
    hits = [make_hit(text, "PRO"), make_hit(text, "")]
    params = PageParams(text, ("bm25", "gru"), explained_hits=(f"bm25 {text}",))
    return render_results(
        SITE, params, SearchResults(text, [SystemResults("bm25", hits, 2), failed], 0.1), 2
    )


EXPECTED_ELEMENTS = ParsedPage(render_text("zoos are cruel")).elements


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=8))
def test_texts_add_no_elements(text):
    page = ParsedPage(render_text(text))
    assert set(page.elements) <= {*EXPECTED_ELEMENTS}
    expected = [1, 1, 1, 2]
    assert [page.elements.count(name) for name in ("html", "title", "form", "article")] == expected
    assert all(
        character.isprintable() or character in "\n\u200c\u200d\xa0" for character in page.text
    )


ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def make_results(premise, explanation=None):
    """Create a hit whose snippet is the premise, with every second word as a match."""
    matches = [Span(*match.span()) for match in compile_word_pattern().finditer(premise)][::2]
    snippet = Snippet(Span(0, len(premise)), matches)
    metadata = ArgumentMetadata("PRO", "portal")
    hit = Hit(1, 1.5, "doc", metadata, "zoos", premise, snippet, [], explanation)
    return SystemResults("[b]bm25[/b]", [hit], 1)


def render_systems(*systems, width=200, coloured=False):
    console = Console(
        file=StringIO(), width=width, force_terminal=coloured, color_system="standard" if coloured else None,
        markup=False, highlight=False, emoji=False, _environ={},
    )  # fmt: skip
    print_results(SearchResults("zoos?", list(systems), 0.1), 461, console)
    return console.file.getvalue()


ROWS = [Row(float(value), f"term{value}", "note") for value in (1, 0, -7, 2, 3, 4, 5)]
# results, whether they are coloured, part of the output
RENDERED = {
    "markup in premises": (
        make_results("[bold]are[/bold] :zoo: [/] http://a.example/ 'x' 12"), False,
        "[*bold*]are[/*bold*] :zoo: [/] *http*://a.*example*/ 'x' *12*",
    ),
    "no results": (SystemResults("bm25", [], 0), False, "no argument matches the query; use other words, or another system"),
    "markup in systems": (make_results(""), False, "[b]bm25[/b]  1 results"),
    "coloured matches": (
        make_results("Zoos are cruel."), True, "\x1b[1;4;33mZoos\x1b[0m are \x1b[1;4;33mcruel\x1b[0m."
    ),
    "largest contributions": (
        make_results("zoos", explanation=Explanation(8.0, ROWS, "the sum")), False,
        "contributions: term-7 -7.000, term5 +5.000, term4 +4.000, term3 +3.000, term2 +2.000, 1 more +1.000",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RENDERED)
def test_results_are_rendered(name):
    results, is_coloured, expected = RENDERED[name]
    assert expected in render_systems(results, coloured=is_coloured)


@given(st.text(max_size=200), st.booleans(), st.integers(20, 40), st.integers(1, 2))
def test_lines_fit_the_width_and_keep_all_text(text, coloured, width, n_systems):
    systems = [make_results(text)] * n_systems
    rendered = render_systems(*systems, width=width, coloured=coloured)
    lines = [ESCAPES.sub("", line) for line in rendered.split("\n")]
    assert all(cell_len(line) <= width for line in lines)
    characters = set("".join(lines)) - {*"\u200c\u200d"}
    assert all(map(str.isprintable, characters))
    hit = lines[lines.index("  1  PRO  1.5000") + 2 :]  # below the conclusion
    snippet = "".join("".join(hit).partition("portal doc")[0].split())
    if coloured:
        assert snippet == "".join(sanitise(text).split())
