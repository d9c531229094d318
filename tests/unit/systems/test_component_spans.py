"""Tests of splitting a text into argument components."""

from __future__ import annotations

from submission.models.enricher import TokenAnnotation
from submission.systems.explanation import TextSpan, split_by_component

TEXT = " So zoos are cruel, and small ."
COMPONENTS = {"zoos": "claim", "are": "claim", "cruel": "claim", "and": "premise", "small": "premise"}
WORDS = [
    TokenAnnotation(text, TEXT.index(text), TEXT.index(text) + len(text), 0.0)
    for text in ("So", "zoos", "are", "cruel", ",", "and", "small", ".")
]


def test_adjacent_tokens_of_a_component_form_one_span() -> None:
    spans = split_by_component(TEXT, WORDS, lambda word: COMPONENTS.get(word.surface, ""))
    assert spans == [
        TextSpan(" So ", ""), TextSpan("zoos are cruel", "claim"), TextSpan(", ", ""), TextSpan("and small", "premise"),
        TextSpan(" .", ""),
    ]  # fmt: skip


def test_texts_with_adjacent_or_no_components() -> None:
    assert split_by_component(TEXT, WORDS, lambda word: "") == [TextSpan(TEXT, "")]
    adjacent = [TokenAnnotation("a", 0, 1, 0.0), TokenAnnotation("b", 1, 2, 0.0)]
    assert split_by_component("ab", adjacent, lambda word: word.surface) == [TextSpan("a", "a"), TextSpan("b", "b")]
    assert split_by_component("", [], lambda word: "claim") == []
