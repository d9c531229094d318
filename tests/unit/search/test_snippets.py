"""Tests of snippets, their matches, and highlights of enrichments."""

import time
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aragorn.models.taggers import TokenAnnotation
from aragorn.search.snippets import (
    Span,
    compile_word_pattern,
    compute_highlights,
    extract_snippet,
)
from aragorn.systems.catalogue import SYSTEMS
from aragorn.systems.enrichment import WEIGHT_LEVELS, locate_words
from aragorn.text.index_terms import TermAnalyser
from tests.conftest import SAMPLE, make_argument

WEIGHTS = {"zoos": 2.0, "cruel": 3.0, "animals": 0.5}


def get_snippet_texts(text, snippet):
    return text[slice(*snippet.span)], [text[slice(*match)] for match in snippet.visible_matches]


def make_sentence(*words, size=40):
    """Return a sentence of `size` words: `words`, then fillers."""
    return " ".join([*words, *["filler"] * (size - len(words))]) + ". "


def test_distinct_terms_outweigh_the_number_of_matches():
    text = make_sentence("zoos") + make_sentence("zoos", "zoos") + make_sentence("zoos", "zoos")
    snippet = extract_snippet(text, WEIGHTS, TermAnalyser("none"))
    assert snippet.span.start == len(make_sentence("zoos"))  # the first of the tied windows
    assert len(snippet.visible_matches) == 2
    assert len(snippet.matches) == 5


def test_matches_are_index_terms():
    text = "The Zoo’s ZOOS, cruelty and animal-houses (zoo)."
    analyser = TermAnalyser("porter")
    weights = {"zoo": 1.0, "anim": 1.0}
    expected = ["Zoo’s", "ZOOS", "animal", "zoo"]
    assert get_snippet_texts(text, extract_snippet(text, weights, analyser))[1] == expected
    actual = get_snippet_texts(text, extract_snippet(text, {"zoos": 1.0}, TermAnalyser("none")))[1]
    assert actual == ["Zoo’s", "ZOOS"]


@pytest.mark.parametrize("text", ["Zoos are bad. ", "zoos' ", " "])
def test_snippet_time_is_linear(text):
    start = time.process_time()
    extract_snippet(text * 10_000, WEIGHTS, TermAnalyser("none"))
    assert time.process_time() - start < 2.0  # quadratic time would take a hundred times as long


@given(st.text(max_size=60), st.sampled_from(["none", "porter"]))
def test_words_yield_the_index_terms_of_the_text(text, stemmer):
    analyser = TermAnalyser(stemmer)
    words = (match[0] for match in compile_word_pattern().finditer(text))
    assert list(chain.from_iterable(map(analyser.analyse, words))) == analyser.analyse(text)


@given(st.text("zoos cruel.!?…\n\t'’\u0301é", max_size=400))
def test_snippet_is_part_of_the_text(text):
    span, matches = extract_snippet(text, {**WEIGHTS, "zoo": 1.0}, TermAnalyser("none"))
    assert 0 <= span.start <= span.end <= len(text)
    assert text[slice(*span)].strip() == text[slice(*span)] or not text.strip()
    assert all(
        isinstance(match, Span) and compile_word_pattern().fullmatch(text[slice(*match)])
        for match in matches
    )


def get_texts_and_labels(retrieval, docno, highlights):
    [premise] = retrieval.collection.documents.read_texts({docno})["premise"]
    return [(premise[highlight.start : highlight.end], highlight.label) for highlight in highlights]


def test_deepct_highlights_words_by_weight_except_urls(make_retrieval):
    retrieval = make_retrieval(SAMPLE)
    stage = SYSTEMS["deepct_dirichlet"].stage
    docno = "S89c1bfbf-A55b19fa0"
    highlights = compute_highlights(stage, retrieval.collection, docno)
    pairs = get_texts_and_labels(retrieval, docno, highlights)
    expected = {f"weight-{level}" for level in range(1, WEIGHT_LEVELS + 1)}
    assert {label for _, label in pairs} <= expected
    heaviest = {text.lower() for text, label in pairs if label == f"weight-{WEIGHT_LEVELS}"}
    assert heaviest
    topical = {"zoo", "captivity", "elephant", "tiger", "sanctuaries", "conservation", "freedom"}
    assert heaviest <= topical
    assert not any("example" in text for text, _ in pairs)  # part of a URL


def test_words_are_located_in_texts_with_urls():
    text = "See http://the-zoo.example/cage the zoo. A cage."
    passage = "See   the zoo."
    spans = ((0, 3), (6, 9), (10, 13))
    words = [TokenAnnotation(passage[start:end], start, end, 1.0) for start, end in spans]
    second_words = [TokenAnnotation("cage", 2, 6, 1.0)]
    located_words = [
        (start, text[start:end])
        for start, end, _ in locate_words(text, [(passage, words), ("A cage.", second_words)])
    ]
    assert located_words == [(0, "See"), (32, "the"), (36, "zoo"), (43, "cage")]


def test_highlights_of_the_conclusion_are_omitted(make_retrieval, make_input):
    conclusion = "Therefore, I strongly believe that zoos should be closed by the government."
    premise = (
        "Animals in small cages suffer from stress and they become ill, because they cannot move. "
        "Moreover, children learn little about wild animals in a zoo."
    )
    directory = make_input(arguments=[make_argument("a", conclusion, premise)])
    retrieval = make_retrieval(directory, qid="1")
    stage = SYSTEMS["targer_dirichlet"].stage
    explanation = stage.explain(retrieval, "1", "a")
    spans = [explanation.text[start:end] for start, end, _ in explanation.components]
    assert spans[0] == "zoos should be closed by the government"
    assert len(spans) == 4
    highlights = compute_highlights(stage, retrieval.collection, "a")
    pairs = get_texts_and_labels(retrieval, "a", highlights)
    assert [text for text, _ in pairs] == spans[1:]
