from __future__ import annotations

import time
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.search.snippets import Snippet, Span, compile_word_pattern, extract_snippet
from submission.text.index_terms import Stemmer, TermAnalyser

WEIGHTS = {"zoos": 2.0, "cruel": 3.0, "animals": 0.5}


def get_snippet_texts(text: str, snippet: Snippet) -> tuple[str, list[str]]:
    return text[slice(*snippet.span)], [text[slice(*match)] for match in snippet.visible_matches]


def make_sentence(*words: str, size: int = 40) -> str:
    """Return a sentence of `size` words: `words`, then fillers."""
    return " ".join([*words, *["filler"] * (size - len(words))]) + ". "


def test_distinct_terms_outweigh_the_number_of_matches() -> None:
    text = make_sentence("zoos") + make_sentence("zoos", "zoos") + make_sentence("zoos", "zoos")
    snippet = extract_snippet(text, WEIGHTS, TermAnalyser("none"))
    assert snippet.span.start == len(make_sentence("zoos"))  # the first of the tied windows
    assert len(snippet.visible_matches) == 2
    assert len(snippet.matches) == 5


def test_matches_are_index_terms() -> None:
    text = "The Zoo’s ZOOS, cruelty and animal-houses (zoo)."
    analyser, weights = TermAnalyser("porter"), {"zoo": 1.0, "anim": 1.0}
    assert get_snippet_texts(text, extract_snippet(text, weights, analyser))[1] == ["Zoo’s", "ZOOS", "animal", "zoo"]
    assert get_snippet_texts(text, extract_snippet(text, {"zoos": 1.0}, TermAnalyser("none")))[1] == ["Zoo’s", "ZOOS"]


@pytest.mark.parametrize("text", ["Zoos are bad. ", "zoos' ", " "])
def test_snippet_time_is_linear(text: str) -> None:
    start = time.process_time()
    extract_snippet(text * 10_000, WEIGHTS, TermAnalyser("none"))
    assert time.process_time() - start < 2.0  # quadratic time would take a hundred times as long


@given(st.text(max_size=60), st.sampled_from(["none", "porter"]))
def test_words_yield_the_index_terms_of_the_text(text: str, stemmer: Stemmer) -> None:
    analyser = TermAnalyser(stemmer)
    assert list(
        chain.from_iterable(analyser.analyse(match[0]) for match in compile_word_pattern().finditer(text))
    ) == analyser.analyse(text)


@given(st.text("zoos cruel.!?…\n\t'’\u0301é", max_size=400))
def test_snippet_is_part_of_the_text(text: str) -> None:
    span, matches = extract_snippet(text, {**WEIGHTS, "zoo": 1.0}, TermAnalyser("none"))
    assert 0 <= span.start <= span.end <= len(text)
    assert text[slice(*span)].strip() == text[slice(*span)] or not text.strip()
    assert all(isinstance(match, Span) and compile_word_pattern().fullmatch(text[slice(*match)]) for match in matches)
