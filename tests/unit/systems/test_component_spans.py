"""Split of a text into argument components."""

from __future__ import annotations

from submission.models.enricher import TokenAnnotation
from submission.systems.explanation import TextSpan, split_by_component

TEXT = " So zoos are cruel, and small ."
PARTS = {"zoos": "claim", "are": "claim", "cruel": "claim", "and": "premise", "small": "premise"}
WORDS = [
    TokenAnnotation(text, TEXT.index(text), TEXT.index(text) + len(text), 0.0)
    for text in ("So", "zoos", "are", "cruel", ",", "and", "small", ".")
]


def test_spans_cover_whole_components() -> None:
    spans = split_by_component(TEXT, WORDS, lambda word: PARTS.get(word.surface, ""))
    assert spans == [
        TextSpan(" So ", ""), TextSpan("zoos are cruel", "claim"), TextSpan(", ", ""), TextSpan("and small", "premise"),
        TextSpan(" .", ""),
    ]  # fmt: skip
    assert "".join(span.text for span in spans) == TEXT


def test_adjacent_and_missing_components() -> None:
    assert split_by_component(TEXT, WORDS, lambda word: "") == [TextSpan(TEXT, "")]
    assert split_by_component(TEXT[1:-2], WORDS[:0], lambda word: "claim") == [TextSpan(TEXT[1:-2], "")]
    touching = [TokenAnnotation("a", 0, 1, 0.0), TokenAnnotation("b", 1, 2, 0.0)]
    assert split_by_component("ab", touching, lambda word: word.surface) == [TextSpan("a", "a"), TextSpan("b", "b")]
    assert split_by_component("", [], lambda word: "claim") == []
