"""Tests of passages, and of their words, subwords, tokens and characters."""

import re

from hypothesis import given
from hypothesis import strategies as st

from aragorn.text import surface_tokens
from aragorn.text.passages import SENTENCE_END, WordPiecePassageTokeniser, split_passages
from aragorn.text.tokenisers import Vocabulary
from tests.conftest import build_tiny_tokenizer


def test_fitting_sentences_stay_whole():
    text = "One two three. Four five! Six (seven?) eight\nnine ten. 1.5 is no end, nor is e.g.this."
    expected = ["One two three. Four five!", "Six (seven?) eight\nnine ten."]
    expected += ["1.5 is no end, nor", "is e.g.this."]
    assert split_passages(text, 5) == expected
    assert split_passages(text, 4)[1:3] == ["Four five! Six (seven?)", "eight\nnine ten."]
    assert split_passages(text, 100) == [text]
    assert split_passages("“Is it so?” he asked. Yes", 3) == ["“Is it so?”", "he asked. Yes"]


def test_overlong_sentence_is_split():
    assert split_passages("a b c d e f g. h i", 3) == ["a b c", "d e f", "g. h i"]
    expected = [220, 220, 220, 220, 120]
    assert [len(passage.split()) for passage in split_passages("word " * 1000, 220)] == expected


@given(st.text(alphabet="ab .!?\n”)é", max_size=80), st.integers(1, 6))
def test_passages_keep_all_words_within_limit(text, max_words):
    passages = split_passages(text, max_words)
    assert [word for passage in passages for word in passage.split()] == text.split()
    assert all(1 <= len(passage.split()) <= max_words for passage in passages)


@given(st.text(alphabet="a .!\n\t”)\u2003\x1c", max_size=60))
def test_sentences_end_at_punctuation_or_line_breaks(text):
    # takes time quadratic in the length of whitespace
    expected = re.compile(r"[.!?…][\"'”’)\]]*\s+|\s*\n\s*")
    actual = [match.span() for match in SENTENCE_END.finditer(text)]
    assert actual == [match.span() for match in expected.finditer(text)]


def test_words_and_word_pieces():
    reader = WordPiecePassageTokeniser(build_tiny_tokenizer(), 4, 100)
    first, second = reader.split("Topic filler, http://example.org/a Abc 😀. Don't")
    assert (first.text, second.text) == ("Topic filler,   Abc 😀.", "Don't")
    # the tokenizer does not know punctuation
    assert first.words == ["topic", "filler", "", "abc", "", ""]
    expected = ["Topic", "filler", ",", "Abc", "😀", "."]
    assert [first.text[start:end] for start, end in first.spans] == expected
    assert first.first_pieces == [0, 1, 2, 3, 6, 7]
    assert len(first) == len(first.piece_ids) == 8
    assert [second.text[start:end] for start, end in second.spans] == ["Don", "'", "t"]
    assert reader.split("http://example.org/a") == []


def test_passage_is_truncated_to_max_pieces():
    tokenizer = build_tiny_tokenizer()
    [passage] = WordPiecePassageTokeniser(tokenizer, 220, 5).split("topic abcd ef gh")
    # a word with truncated pieces stays whole
    assert (passage.words, passage.first_pieces) == (["topic", "abcd"], [0, 1])
    expected = ["topic", "a", "##b", "##c", "##d"]
    assert [tokenizer.id_to_token(piece_id) for piece_id in passage.piece_ids] == expected
    [passage] = WordPiecePassageTokeniser(tokenizer, 220, 3).split("topic abcd ef gh")
    assert (passage.words, len(passage)) == (["topic", "abcd"], 3)


def split_surface_tokens(text):
    return [text[start:end] for start, end in surface_tokens.find_token_spans(text)]


def test_tokens_are_words_or_punctuation_marks():
    assert split_surface_tokens("Don't ban CO2, women’s 21st-century “cafés”…") == [
        "Don", "'", "t", "ban", "CO2", ",", "women", "’", "s", "21st", "-", "century", "“", "cafés", "”", "…",
    ]  # fmt: skip
    expected = ["a", "_", "b", "$", "1", ".", "50", "東京", "😀"]
    assert split_surface_tokens("a_b  \n\t$1.50 東京 😀") == expected


@given(st.text())
def test_tokens_cover_text_except_whitespace(text):
    assert "".join(split_surface_tokens(text)) == "".join(text.split())
    assert all(word.split() == [word] for word in split_surface_tokens(text))
    # fails if a token contains whitespace
    Vocabulary(sorted(set(map(surface_tokens.normalise_token, split_surface_tokens(text)))))


def test_token_ids_ignore_case_and_digits():
    reader = surface_tokens.SurfaceTokeniser(Vocabulary(["women", "co0", "0000"]), 9)
    [passage] = reader.split("Women WOMEN CO2 1984 men")
    assert passage.token_ids == [2, 2, 3, 4, 1]
    assert [reader.fits_embedding(size) for size in (4, 5)] == [False, True]


def test_characters_are_centred():
    a, z = (surface_tokens.ALPHABET.index(character) + 2 for character in "az")
    assert surface_tokens.encode_characters("az") == [0] * 9 + [a, z] + [0] * 9
    assert surface_tokens.encode_characters("aza") == [0] * 8 + [a, z, a] + [0] * 9
    assert surface_tokens.encode_characters("z" * 19 + "a" + "zz") == [z] * 19 + [a]
    assert surface_tokens.encode_characters("東a") == [0] * 9 + [1, a] + [0] * 9
    assert sorted(
        surface_tokens.encode_characters(character)[9] for character in surface_tokens.ALPHABET
    ) == list(range(2, surface_tokens.N_CHARACTER_IDS))


def split_into_passages(text, max_tokens):
    passages = surface_tokens.SurfaceTokeniser(Vocabulary([]), max_tokens).split(text)
    for passage in passages:
        assert len(passage) == len(passage.spans) == len(passage.token_ids) <= max_tokens
        assert [passage.text[start:end] for start, end in passage.spans] == passage.tokens
    return [passage.text for passage in passages]


def test_passages_end_at_sentences():
    text = " Zoos are cruel. Are they?  They aren't good for the U.S. animal! "
    expected = ["Zoos are cruel. Are they?", "They aren't good for the", "U.S. animal!"]
    assert split_into_passages(text, 9) == expected
    expected = ["Zoos are cruel. Are they?", "They aren't good for the U.S.", "animal!"]
    assert split_into_passages(text, 12) == expected
    assert split_into_passages(text, 20) == [text.strip()]
    assert split_into_passages("a'b'c'd e", 4) == ["a'b'", "c'd e"]
    assert split_into_passages(" \n", 5) == []


@given(st.text("ab .?!", max_size=40), st.integers(1, 9))
def test_passages_keep_all_tokens_in_order(text, max_tokens):
    actual = "".join("".join(passage.split()) for passage in split_into_passages(text, max_tokens))
    assert actual == "".join(text.split())
