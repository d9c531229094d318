"""Tests of normalised texts, index terms, vocabularies, and special tokens."""

import hashlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aragorn.paths import CHECKPOINT_DIR, STOP_WORDS_FILE
from aragorn.text import normalisation
from aragorn.text.index_terms import TermAnalyser
from aragorn.text.passages import WordPiecePassageTokeniser
from aragorn.text.tokenisers import (
    MaxLengths,
    Vocabulary,
    WordPieceTokeniser,
    WordTokeniser,
    load_tokenizer,
)

TRANSFORMS = {
    "normalise": normalisation.normalise, "premise": lambda text: " ".join(normalisation.tokenise_premise(text)),
    "query": lambda text: " ".join(normalisation.tokenise_query(text)), "sanitise": normalisation.sanitise,
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("normalise", "Should teachers get tenure?", "teachers get tenure"),
    # don't is a stop word with and without its apostrophe
    ("normalise", "Don't ban women's rights", "ban womens rights"),
    ("normalise", "Don’t ban women’s rights", "ban womens rights"),
    ("normalise", "9/11: an inside-job", "9 11 inside job"), ("normalise", "To be, or not to be?", "to be, or not to be?"),
    ("normalise", "  Is   École\tgood ", "école good"),
    ("premise", "Yes, it IS!!!", "yes <comma> it is <exclamation_mark>"),
    ("premise", "see https://example.org/a?b=1 and www.example.org now", "see and now"),
    ("premise", "the 9th of 42", "the nine th of forty two"), ("premise", "no no no, really really", "no <comma> really"),
    ("premise", "12" * 30, "<number>"),
    ("premise", "women's “rights”", "womens <quotation_mark> rights <quotation_mark>"),
    ("premise", "'quoted' – 5€", "<apostrophe> quoted <apostrophe> <hyphen_minus> five <euro_sign>"),  # noqa: RUF001
    ("sanitise", "a\x1b[31mb\x07\0c", "a\ufffd[31mb\ufffd\ufffdc"),
    ("sanitise", "\u202egnp.exe", "\ufffdgnp.exe"),  # reverses the direction
    ("sanitise", "\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    ("sanitise", "cafe\u0301 👩\u200d🚀", "cafe\u0301 👩\u200d🚀"), ("sanitise", "\ud800", "\ufffd"),
    ("query", "Should women's 9/11 memorials be free?", "womens nine eleven memorials free"),
])  # fmt: skip
def test_texts_are_transformed(name, text, expected):
    assert TRANSFORMS[name](text) == expected


def test_stop_words_are_those_of_2020():
    data = STOP_WORDS_FILE.read_bytes()
    expected = "649e2341238138974f7fc014ba2c3655dc334605136791a9d1918a41fca86143"
    advice = (
        "after a change of the stop words, raise VERSION in normalisation.py, and set this hash"
    )
    assert hashlib.sha256(data).hexdigest() == expected, advice
    words = data.decode().split()
    assert len(words) == 179
    assert normalisation.load_stop_words() == {word.replace("'", "") for word in words}


@pytest.mark.parametrize("text", [
    "no " * 500 + "end",  # collapses to one word
    # no whitespace where it would be cut
    "see https://example.org/" + "a" * 900 + " and more " * 300,
    "Σίσυφος ΟΔΟΣ, women's 1,000 “rights”…\n\u2003" * 60,
    "x" * 5000,
    ". . . 12 12 a-b " * 200,
], ids=lambda text: text[:12])  # fmt: skip
@pytest.mark.parametrize("max_tokens", [1, 50, 180])
def test_tokenise_prefix_equals_prefix_of_all_tokens(text, max_tokens):
    actual = normalisation.tokenise_prefix(text, max_tokens, normalisation.tokenise_premise)
    assert actual == normalisation.tokenise_premise(text)[:max_tokens]


VARIANTS = {  # variant → normal form
    "cafe\u0301": "café",
    "\uff3a\uff4f\uff4f\uff53\uff01": "Zoos!",
    "abol\u00adished": "abolished",
    "zo\u200bos": "zoos",
    "zoos\u3000are": "zoos are",
    "a\u2060b\u200dc\ufe0f": "abc",
    "right\u200e to\u202e left": "right to left",
    "e\u00ad\u0301": "é",  # composed after removing the hyphen
    "\u212b": "å".upper(),  # ångström sign
}


@pytest.mark.parametrize(("variant", "normalised"), VARIANTS.items())
def test_variants_are_normalised(variant, normalised):
    assert normalisation.normalise_unicode(variant) == normalised
    for function in (
        TermAnalyser("none").analyse,
        normalisation.normalise,
        normalisation.tokenise_query,
        normalisation.tokenise_premise,
    ):
        assert function(variant) == function(normalised)


@given(st.text())
def test_normalisation_is_idempotent(text):
    normalised = normalisation.normalise_unicode(text)
    assert normalisation.normalise_unicode(normalised) == normalised
    assert all(
        normalisation.normalise_unicode(unicodedata.normalize(form, text)) == normalised
        for form in ("NFC", "NFD")
    )


@pytest.mark.parametrize("token", ["[SEP]", "[MASK]"])
@pytest.mark.parametrize("checkpoint", ["vanilla_bert", "sbert", "deepct"])
def test_special_tokens_in_texts_are_text(checkpoint, token):
    directory = CHECKPOINT_DIR / checkpoint
    text = f"zoos {token} are cruel"
    tokenizer = load_tokenizer(directory)
    reader = WordPieceTokeniser.load(directory, MaxLengths(20, 60))
    [passage] = WordPiecePassageTokeniser(tokenizer, 220, 320).split(text)
    for ids in (reader.encode_premise(text), reader.encode_query(text), passage.piece_ids):
        assert tokenizer.token_to_id(token) not in ids
    assert reader.encode_premise(text) == reader.encode_premise(text.lower())
    assert "[" in passage.words


@pytest.mark.parametrize(("text", "terms"), [
    ("", []),
    ("Teachers' tenure — isn't it OUTDATED?", ["teachers", "tenure", "outdated"]),
    ("women’s rights", ["womens", "rights"]),
    ("9/11, 2nd e-mail_address", ["9", "11", "2nd", "e", "mail", "address"]),
    ("“École”\u2013東京…naïve ÉTÉ", ["école", "東京", "naïve", "été"]),
    ("to be, or not to be", []), ("a\0b\x1bc \ud800 \ufffe", ["b", "c"]), ("ǅungla Straße", ["ǆungla", "straße"]),
])  # fmt: skip
def test_analyse_text(text, terms):
    assert TermAnalyser("none").analyse(text) == terms


VOCABULARY = Vocabulary(["zoos", "are", "cruel", "é"])


def test_vocabulary_ids_survive_a_round_trip(tmp_path):
    (tmp_path / "v").write_text(VOCABULARY.to_text(), encoding="utf-8")
    for vocabulary in (VOCABULARY, Vocabulary.load(tmp_path / "v")):
        assert vocabulary.get_ids(["zoos", "never", "é"]) == [2, 1, 5]
        assert len(vocabulary) == 6


def test_texts_are_truncated_to_max_lengths():
    tokeniser = WordTokeniser(VOCABULARY, MaxLengths(query=2, premise=3))
    # "are" and "so" are stop words
    assert tokeniser.encode_query("Are zoos really so cruel?") == [2, 1]
    assert tokeniser.encode_premise("Zoos, are cruel") == [2, 1, 3]
