"""Surface tokens, their spans and character ids, and passages of whole sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from submission.text.surface_tokens import CHARACTERS, SLOTS, SPELLING_IDS, WrittenReader, form, places, spelling
from submission.text.vocabulary import Vocabulary


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in places(text)]


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
    Vocabulary(sorted(set(map(form, words(text)))))  # forms hold no blanks


def test_a_form_is_lower_cased_and_its_digits_are_zero() -> None:
    reader = WrittenReader(Vocabulary(["women", "co0", "0000"]), 9)
    [passage] = reader.passages("Women WOMEN CO2 1984 men")
    assert passage.ids == [2, 2, 3, 4, 1]
    assert reader.fits(5)
    assert not reader.fits(4)


def test_letters_stand_in_the_middle() -> None:
    assert SLOTS == 20
    a, z = (CHARACTERS.index(character) + 2 for character in "az")
    assert spelling("az") == [0] * 9 + [a, z] + [0] * 9
    assert spelling("aza") == [0] * 8 + [a, z, a] + [0] * 9
    assert spelling("z" * 19 + "a" + "zz") == [z] * 19 + [a]
    assert spelling("東a") == [0] * 9 + [1, a] + [0] * 9
    assert sorted(spelling(character)[9] for character in CHARACTERS) == list(range(2, SPELLING_IDS))


def cut(text: str, longest: int) -> list[str]:
    passages = WrittenReader(Vocabulary([]), longest).passages(text)
    for passage in passages:
        assert len(passage) == len(passage.places) == len(passage.ids) <= longest
        assert [passage.text[start:end] for start, end in passage.places] == passage.words
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
