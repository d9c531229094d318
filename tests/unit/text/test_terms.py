"""Tests of index terms, vocabularies and their ids."""

from pathlib import Path

import pytest

from submission.text.index_terms import END_OF_TEXT, TermAnalyser, split_tokens
from submission.text.tokenisers import MaxLengths, WordTokeniser
from submission.text.vocabulary import Vocabulary


@pytest.mark.parametrize(("text", "terms"), [
    ("", []),
    ("Teachers' tenure — isn't it OUTDATED?", ["teachers", "tenure", "outdated"]),
    ("women’s rights", ["womens", "rights"]),
    ("9/11, 2nd e-mail_address", ["9", "11", "2nd", "e", "mail", "address"]),
    ("“École”\u2013東京…naïve ÉTÉ", ["école", "東京", "naïve", "été"]),
    ("to be, or not to be", []), ("a\0b\x1bc \ud800 \ufffe", ["b", "c"]), ("ǅungla Straße", ["ǆungla", "straße"]),
])  # fmt: skip
def test_analyse_text(text: str, terms: list[str]) -> None:
    assert TermAnalyser("none").analyse(text) == terms


def test_porter_stemmer_with_extensions() -> None:
    # bli → ble and logi → log are Martin Porter's extensions; NLTK's default has an exception for dying.
    assert TermAnalyser("porter").analyse("teachers relational hesitanci possibly archaeology dying") == [
        "teacher", "relat", "hesit", "possibl", "archaeolog", "dy",
    ]  # fmt: skip


def test_split_tokens_of_several_texts() -> None:
    texts = ["Are zoos cruel?", "", "“Zoos” aren’t\n", "…"]
    tokens = split_tokens(texts)
    assert tokens.count(END_OF_TEXT) == 4
    assert tokens == [token for text in texts for token in split_tokens([text])]


VOCABULARY = Vocabulary(["zoos", "are", "cruel", "é"])


def test_vocabulary_ids_survive_a_round_trip(tmp_path: Path) -> None:
    (tmp_path / "v").write_text(VOCABULARY.to_text(), encoding="utf-8")
    for vocabulary in (VOCABULARY, Vocabulary.load(tmp_path / "v")):
        assert vocabulary.get_ids(["zoos", "never", "é"]) == [2, 1, 5]
        assert len(vocabulary) == 6


def test_texts_are_truncated_to_max_lengths() -> None:
    tokeniser = WordTokeniser(VOCABULARY, MaxLengths(query=2, premise=3))
    assert tokeniser.encode_query("Are zoos really so cruel?") == [2, 1]  # "are" and "so" are stop words
    assert tokeniser.encode_premise("Zoos, are cruel") == [2, 1, 3]
