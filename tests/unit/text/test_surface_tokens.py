"""Surface tokens, their spans and character ids, and passages of whole sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from submission.text.surface_tokens import (
    ALPHABET,
    CHARACTER_ID_COUNT,
    CHARACTERS_PER_TOKEN,
    SurfaceReader,
    encode_characters,
    find_token_spans,
    normalise_token,
)
from submission.text.vocabulary import Vocabulary


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in find_token_spans(text)]


def test_words_are_runs_of_letters_and_digits_and_single_marks() -> None:
    assert words("Don't ban CO2, women’s 21st-century “cafés”…") == [
        "Don", "'", "t", "ban", "CO2", ",", "women", "’", "s", "21st", "-", "century", "“", "cafés", "”", "…",
    ]  # fmt: skip
    assert words("a_b  \n\t$1.50 東京 😀") == ["a", "_", "b", "$", "1", ".", "50", "東京", "😀"]
    assert words(" \n ") == []


@given(st.text())
def test_words_are_all_of_a_text_but_its_blanks(text: str) -> None:
    assert "".join(words(text)) == "".join(text.split())
    assert all(word.split() == [word] for word in words(text))
    Vocabulary(sorted(set(map(normalise_token, words(text)))))  # forms hold no blanks


def test_a_form_is_lower_cased_and_its_digits_are_zero() -> None:
    reader = SurfaceReader(Vocabulary(["women", "co0", "0000"]), 9)
    [passage] = reader.split("Women WOMEN CO2 1984 men")
    assert passage.token_ids == [2, 2, 3, 4, 1]
    assert reader.matches_vocabulary(5)
    assert not reader.matches_vocabulary(4)


def test_letters_stand_in_the_middle() -> None:
    assert CHARACTERS_PER_TOKEN == 20
    a, z = (ALPHABET.index(character) + 2 for character in "az")
    assert encode_characters("az") == [0] * 9 + [a, z] + [0] * 9
    assert encode_characters("aza") == [0] * 8 + [a, z, a] + [0] * 9
    assert encode_characters("z" * 19 + "a" + "zz") == [z] * 19 + [a]
    assert encode_characters("東a") == [0] * 9 + [1, a] + [0] * 9
    assert sorted(encode_characters(character)[9] for character in ALPHABET) == list(range(2, CHARACTER_ID_COUNT))


def cut(text: str, longest: int) -> list[str]:
    passages = SurfaceReader(Vocabulary([]), longest).split(text)
    for passage in passages:
        assert len(passage) == len(passage.spans) == len(passage.token_ids) <= longest
        assert [passage.text[start:end] for start, end in passage.spans] == passage.tokens
    return [passage.text for passage in passages]


def test_a_passage_ends_where_a_sentence_does() -> None:
    text = " Zoos are cruel. Are they?  They aren't good for the U.S. animal! "
    assert cut(text, 9) == ["Zoos are cruel. Are they?", "They aren't good for the", "U.S. animal!"]
    assert cut(text, 12) == ["Zoos are cruel. Are they?", "They aren't good for the U.S.", "animal!"]
    assert cut(text, 4) == ["Zoos are cruel.", "Are they?", "They aren't", "good for the", "U.S.", "animal!"]
    assert cut(text, 20) == [text.strip()]
    assert cut("Zoos are cruel. The U.S. animal", 7) == ["Zoos are cruel.", "The U.S. animal"]
    assert cut("a'b'c'd e", 4) == ["a'b'", "c'd e"]
    assert cut(" \n", 5) == []


@given(st.text("ab .?!", max_size=40), st.integers(1, 9))
def test_passages_are_all_words_in_their_order(text: str, longest: int) -> None:
    assert "".join("".join(part.split()) for part in cut(text, longest)) == "".join(text.split())
