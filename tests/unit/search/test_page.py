from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from submission.data.argument_metadata import Origin
from submission.errors import CheckpointError
from submission.search.highlights import Shade
from submission.search.page import Site, render_error, render_home, render_results, split_segments
from submission.search.results import Answer, Found, Listed
from submission.search.snippets import Passage, Span
from submission.search.url_params import Asked
from submission.systems.explanation import Explained, Row
from tests.conftest import ParsedPage

SITE, PARAMS = Site("sample", ["bm25"], ["zoos?"]), Asked("zoos?", ("bm25",))


def make_hit(text: str, stance: str) -> Found:
    snippet = Passage(Span(len(text) // 4, len(text)), [Span(0, len(text) // 3)])
    shades = [Shade(len(text) // 3, len(text) // 2, "claim")]
    explained = Explained(1.0, text, [Row(1.0, text, text), Row(0.0, "zero")])
    return Found(1, 1.0, text, Origin(stance, text), text, text, snippet, shades, explained)


def page_of(text: str) -> str:
    failed = Listed("gru", error=CheckpointError(text))
    hits = [make_hit(text, "PRO"), make_hit(text, "")]
    params = Asked(text, ("bm25", "gru"), why=(f"bm25 {text}",))
    return render_results(SITE, params, Answer(text, [Listed("bm25", hits, 2), failed], 0.1), 2)


EXPECTED = ParsedPage(page_of("zoos are cruel")).elements


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=8))
def test_no_text_adds_an_element(text: str) -> None:
    page = ParsedPage(page_of(text))
    assert set(page.elements) <= {*EXPECTED}
    assert [page.elements.count(name) for name in ("html", "title", "form", "article")] == [1, 1, 1, 2]
    assert all(character.isprintable() or character in "\n\u200c\u200d\xa0" for character in page.text)


def test_texts_are_escaped_in_attributes() -> None:
    text = "\"><script>'&"
    for page in (page_of(text), render_error(SITE, Asked(text), text), render_home(Site(text, ["bm25"], [text]), PARAMS)):
        assert "<script" not in page
    assert 'value="&#34;&gt;&lt;script&gt;&#39;&amp;"' in page_of(text)


def test_premises_are_split_at_matches_and_highlights() -> None:
    hit = make_hit("zoos are cruel", "PRO")
    segments = [("zoos", True, ""), (" ar", False, "claim"), ("e cruel", False, "")]
    assert list(split_segments(hit, Span(0, 14))) == segments
    assert list(split_segments(hit, Span(8, 14))) == [(" cruel", False, "")]
    assert list(split_segments(hit, Span(0, 0))) == [("", False, "")]
