"""Tests of Unicode normalisation, of text rules, and of texts that contain special tokens."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.paths import CHECKPOINT_DIR
from submission.text.index_terms import TermAnalyser
from submission.text.normalisation import normalise, normalise_unicode, tokenise_premise, tokenise_query
from submission.text.passages import PassageReader
from submission.text.tokenisers import MaxLengths, WordPieceTokeniser, WordTokeniser, load_tokenizer
from submission.text.vocabulary import Vocabulary

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
def test_variants_are_normalised(variant: str, normalised: str) -> None:
    assert normalise_unicode(variant) == normalised
    for function in (TermAnalyser("none").analyse, normalise, tokenise_query, tokenise_premise):
        assert function(variant) == function(normalised)


@given(st.text())
def test_normalisation_is_idempotent(text: str) -> None:
    normalised = normalise_unicode(text)
    assert normalise_unicode(normalised) == normalised
    assert all(normalise_unicode(unicodedata.normalize(form, text)) == normalised for form in ("NFC", "NFD"))


def test_text_rule_1_does_not_normalise_unicode() -> None:
    assert [tokenise_query("zo\u00ados", rule) for rule in (1, 2)] == [["zo\u00ados"], ["zoos"]]
    assert tokenise_premise("cafe\u0301", 1) == ["cafe\u0301"]
    vocabulary = Vocabulary(["café", "zoos"])
    first, second = (WordTokeniser(vocabulary, MaxLengths(), rule) for rule in (1, 2))
    assert [reader.encode_premise("cafe\u0301 zo\u00ados") for reader in (first, second)] == [[1, 1], [2, 3]]
    assert first.premise_key != second.premise_key


@pytest.mark.parametrize("token", ["[SEP]", "[MASK]"])
@pytest.mark.parametrize("checkpoint", ["vanilla_bert", "sbert", "deepct"])
def test_special_tokens_in_texts_are_text(checkpoint: str, token: str) -> None:
    directory, text = CHECKPOINT_DIR / checkpoint, f"zoos {token} are cruel"
    tokenizer, reader = load_tokenizer(directory), WordPieceTokeniser.load(directory, MaxLengths(20, 60))
    [passage] = PassageReader(tokenizer, 220, 320).split(text)
    for ids in (reader.encode_premise(text), reader.encode_query(text), passage.piece_ids):
        assert tokenizer.token_to_id(token) not in ids
    assert reader.encode_premise(text) == reader.encode_premise(text.lower())
    assert "[" in passage.words
