"""Tests of surface tokens, of their spans and character ids, and of passages, which consist of whole sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from submission.text.surface_tokens import (
    ALPHABET,
    CHARACTER_ID_COUNT,
    SurfaceReader,
    encode_characters,
    find_token_spans,
    normalise_token,
)
from submission.text.vocabulary import Vocabulary


def split_surface_tokens(text: str) -> list[str]:
    return [text[start:end] for start, end in find_token_spans(text)]


def test_tokens_are_words_or_punctuation_marks() -> None:
    assert split_surface_tokens("Don't ban CO2, women’s 21st-century “cafés”…") == [
        "Don", "'", "t", "ban", "CO2", ",", "women", "’", "s", "21st", "-", "century", "“", "cafés", "”", "…",
    ]  # fmt: skip
    assert split_surface_tokens("a_b  \n\t$1.50 東京 😀") == ["a", "_", "b", "$", "1", ".", "50", "東京", "😀"]


@given(st.text())
def test_tokens_cover_text_except_whitespace(text: str) -> None:
    assert "".join(split_surface_tokens(text)) == "".join(text.split())
    assert all(word.split() == [word] for word in split_surface_tokens(text))
    Vocabulary(sorted(set(map(normalise_token, split_surface_tokens(text)))))  # fails if a token contains whitespace


def test_token_ids_ignore_case_and_digits() -> None:
    reader = SurfaceReader(Vocabulary(["women", "co0", "0000"]), 9)
    [passage] = reader.split("Women WOMEN CO2 1984 men")
    assert passage.token_ids == [2, 2, 3, 4, 1]
    assert [reader.fits_embedding(size) for size in (4, 5)] == [False, True]


def test_characters_are_centred() -> None:
    a, z = (ALPHABET.index(character) + 2 for character in "az")
    assert encode_characters("az") == [0] * 9 + [a, z] + [0] * 9
    assert encode_characters("aza") == [0] * 8 + [a, z, a] + [0] * 9
    assert encode_characters("z" * 19 + "a" + "zz") == [z] * 19 + [a]
    assert encode_characters("東a") == [0] * 9 + [1, a] + [0] * 9
    assert sorted(encode_characters(character)[9] for character in ALPHABET) == list(range(2, CHARACTER_ID_COUNT))


def split_into_passages(text: str, max_tokens: int) -> list[str]:
    passages = SurfaceReader(Vocabulary([]), max_tokens).split(text)
    for passage in passages:
        assert len(passage) == len(passage.spans) == len(passage.token_ids) <= max_tokens
        assert [passage.text[start:end] for start, end in passage.spans] == passage.tokens
    return [passage.text for passage in passages]


def test_passages_end_at_sentences() -> None:
    text = " Zoos are cruel. Are they?  They aren't good for the U.S. animal! "
    assert split_into_passages(text, 9) == ["Zoos are cruel. Are they?", "They aren't good for the", "U.S. animal!"]
    assert split_into_passages(text, 12) == ["Zoos are cruel. Are they?", "They aren't good for the U.S.", "animal!"]
    assert split_into_passages(text, 20) == [text.strip()]
    assert split_into_passages("a'b'c'd e", 4) == ["a'b'", "c'd e"]
    assert split_into_passages(" \n", 5) == []


@given(st.text("ab .?!", max_size=40), st.integers(1, 9))
def test_passages_keep_all_tokens_in_order(text: str, max_tokens: int) -> None:
    assert "".join("".join(passage.split()) for passage in split_into_passages(text, max_tokens)) == "".join(text.split())
