from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from submission.data.argument_metadata import ArgumentMetadata
from submission.errors import CheckpointError
from submission.search.page import PageParams, SiteSettings, render_results, split_segments
from submission.search.results import Hit, SearchResults, SystemResults
from submission.search.snippets import Highlight, Snippet, Span
from submission.systems.explanation import ExplanationRow, ScoreExplanation
from tests.conftest import ParsedPage

SITE, PARAMS = SiteSettings("sample", ["bm25"], ["zoos?"]), PageParams("zoos?", ("bm25",))


def make_hit(text: str, stance: str) -> Hit:
    snippet = Snippet(Span(len(text) // 4, len(text)), [Span(0, len(text) // 3)])
    highlights = [Highlight(len(text) // 3, len(text) // 2, "claim")]
    explanation = ScoreExplanation(1.0, text, [ExplanationRow(1.0, text, text), ExplanationRow(0.0, "zero")])
    return Hit(1, 1.0, text, ArgumentMetadata(stance, text), text, text, snippet, highlights, explanation)


def render_text(text: str) -> str:
    failed = SystemResults("gru", error=CheckpointError(text))
    hits = [make_hit(text, "PRO"), make_hit(text, "")]
    params = PageParams(text, ("bm25", "gru"), explained_hits=(f"bm25 {text}",))
    return render_results(SITE, params, SearchResults(text, [SystemResults("bm25", hits, 2), failed], 0.1), 2)


EXPECTED_ELEMENTS = ParsedPage(render_text("zoos are cruel")).elements


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=8))
def test_texts_add_no_elements(text: str) -> None:
    page = ParsedPage(render_text(text))
    assert set(page.elements) <= {*EXPECTED_ELEMENTS}
    assert [page.elements.count(name) for name in ("html", "title", "form", "article")] == [1, 1, 1, 2]
    assert all(character.isprintable() or character in "\n\u200c\u200d\xa0" for character in page.text)


def test_premises_are_split_at_matches_and_highlights() -> None:
    hit = make_hit("zoos are cruel", "PRO")
    segments = [("zoos", True, ""), (" ar", False, "claim"), ("e cruel", False, "")]
    assert list(split_segments(hit, Span(0, 14))) == segments
    assert list(split_segments(hit, Span(8, 14))) == [(" cruel", False, "")]
    assert list(split_segments(hit, Span(0, 0))) == [("", False, "")]
