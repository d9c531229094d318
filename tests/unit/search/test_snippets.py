from __future__ import annotations

import time
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.search.snippets import MAX_WORDS, Snippet, Span, compile_term_pattern, extract_snippet
from submission.text.index_terms import Stemmer, TermAnalyser

WEIGHTS = {"zoos": 2.0, "cruel": 3.0, "animals": 0.5}


def shown(text: str, passage: Snippet) -> tuple[str, list[str]]:
    return text[slice(*passage.span)], [text[slice(*mark)] for mark in passage.visible_matches]


def sentence(*words: str, size: int = 40) -> str:
    """Return a sentence of `size` words."""
    return " ".join([*words, *["filler"] * (size - len(words))]) + ". "


def test_window_with_the_rarest_words() -> None:
    text = sentence("Animals", "zoos") + sentence("It", "is", "cruel") + sentence("Animals", "animals")
    snippet, matches = shown(text, extract_snippet(text, WEIGHTS, TermAnalyser("none")))
    assert snippet.startswith("It is cruel filler")
    assert snippet.endswith("filler.")
    assert matches == ["cruel"]


def test_short_sentences_are_merged() -> None:
    text = sentence() + "Zoos are old. They are cruel! Really?\nYes. " + sentence()
    snippet, matches = shown(text, extract_snippet(text, WEIGHTS, TermAnalyser("none")))
    assert snippet.startswith("Zoos are old. They are cruel! Really?\nYes. filler")
    assert matches == ["Zoos", "cruel"]


def test_distinct_words_count_before_matches() -> None:
    text = sentence("zoos") + sentence("zoos", "zoos") + sentence("zoos", "zoos")
    passage = extract_snippet(text, WEIGHTS, TermAnalyser("none"))
    assert passage.span.start == len(sentence("zoos"))  # the first of equals
    assert len(passage.visible_matches) == 2
    assert len(passage.matches) == 5


def test_repeated_word_counts_once() -> None:
    text = sentence("zoos", "zoos", "zoos", "zoos") + sentence("cruel", "zoos")
    assert shown(text, extract_snippet(text, WEIGHTS, TermAnalyser("none")))[1] == ["cruel", "zoos"]


def test_long_sentence_is_truncated() -> None:
    text = " ".join(["filler"] * 500 + ["zoos"] + ["filler"] * 500)
    snippet, matches = shown(text, extract_snippet(text, WEIGHTS, TermAnalyser("none")))
    assert len(snippet.split()) == MAX_WORDS
    assert matches == ["zoos"]


@pytest.mark.parametrize("text", ["", "   \n ", "nothing of it. " * 100])
def test_snippet_without_matches_is_the_beginning(text: str) -> None:
    passage = extract_snippet(text, WEIGHTS, TermAnalyser("none"))
    assert passage.span.start == 0
    assert len(text[slice(*passage.span)].split()) == (60 if text.strip() else 0)
    assert passage.matches == []


def test_matches_are_index_terms() -> None:
    text = "The Zoo’s ZOOS, cruelty and animal-houses (zoo)."
    stem, weights = TermAnalyser("porter"), {"zoo": 1.0, "anim": 1.0}
    assert shown(text, extract_snippet(text, weights, stem))[1] == ["Zoo’s", "ZOOS", "animal", "zoo"]
    assert shown(text, extract_snippet(text, {"zoos": 1.0}, TermAnalyser("none")))[1] == ["Zoo’s", "ZOOS"]


@pytest.mark.parametrize("text", ["Zoos are bad. ", "zoos", ". ", "!", "zoos ", "'", " ", "\n", '!"', "zoos' "])
def test_snippet_time_is_linear(text: str) -> None:
    start = time.monotonic()
    extract_snippet(text * 20_000, WEIGHTS, TermAnalyser("none"))
    assert time.monotonic() - start < 2.0  # a hundred times as long in quadratic time


@given(st.text(), st.sampled_from(["none", "porter"]))
def test_words_have_their_index_terms(text: str, stemmer: Stemmer) -> None:
    terms = TermAnalyser(stemmer)
    assert list(
        chain.from_iterable(terms.analyse(match[0]) for match in compile_term_pattern().finditer(text))
    ) == terms.analyse(text)


@given(st.text("zoos cruel.!?…\n\t'’\u0301é", max_size=400))
def test_snippet_is_part_of_the_text(text: str) -> None:
    span, matches = extract_snippet(text, {**WEIGHTS, "zoo": 1.0}, TermAnalyser("none"))
    assert 0 <= span.start <= span.end <= len(text)
    assert text[slice(*span)].strip() == text[slice(*span)] or not text.strip()
    assert all(isinstance(match, Span) and compile_term_pattern().fullmatch(text[slice(*match)]) for match in matches)
