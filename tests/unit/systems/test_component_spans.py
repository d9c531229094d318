"""Split of a text into argument components."""

from __future__ import annotations

from submission.models.enricher import Word
from submission.systems.explanation import Piece, pieces

TEXT = " So zoos are cruel, and small ."
PARTS = {"zoos": "claim", "are": "claim", "cruel": "claim", "and": "premise", "small": "premise"}
WORDS = [
    Word(text, TEXT.index(text), TEXT.index(text) + len(text), 0.0)
    for text in ("So", "zoos", "are", "cruel", ",", "and", "small", ".")
]


def test_a_piece_is_all_that_is_of_one_part() -> None:
    spans = pieces(TEXT, WORDS, lambda word: PARTS.get(word.text, ""))
    assert spans == [
        Piece(" So ", ""), Piece("zoos are cruel", "claim"), Piece(", ", ""), Piece("and small", "premise"), Piece(" .", ""),
    ]  # fmt: skip
    assert "".join(span.text for span in spans) == TEXT


def test_parts_may_touch_and_may_be_none() -> None:
    assert pieces(TEXT, WORDS, lambda word: "") == [Piece(TEXT, "")]
    assert pieces(TEXT[1:-2], WORDS[:0], lambda word: "claim") == [Piece(TEXT[1:-2], "")]
    touching = [Word("a", 0, 1, 0.0), Word("b", 1, 2, 0.0)]
    assert pieces("ab", touching, lambda word: word.text) == [Piece("a", "a"), Piece("b", "b")]
    assert pieces("", [], lambda word: "claim") == []
