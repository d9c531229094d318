"""Tests of Porter's stemmer against NLTK's, with its author's extensions, and by hand."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer

from aragorn.paths import CHECKPOINT_DIR, PACKAGE_DIR
from aragorn.text import porter
from aragorn.text.index_terms import END_OF_TEXT, split_tokens
from aragorn.text.porter import STEP_1A, STEP_2, STEP_3, STEP_4, stem
from tests.result_cases import STEMMED_WORDS

REFERENCE = PorterStemmer(PorterStemmer.MARTIN_EXTENSIONS)
SUFFIXES = [*STEP_1A, *STEP_2, *STEP_3, *STEP_4, "e", "ed", "eed", "ing", "ll", "y"]
BASES = st.text("aeiouyylrstwxz2é", max_size=6)


def stem_by_nltk(word):
    return REFERENCE.stem(word, to_lowercase=False)


def test_stems_of_sample_and_vocabularies_equal_those_of_nltk():
    vocabularies = [CHECKPOINT_DIR.glob(name) for name in ("*/vocabulary.txt", "*/tokenizer.json")]
    files = [*(PACKAGE_DIR / "sample").rglob("*.json"), *chain.from_iterable(vocabularies)]
    texts = [file.read_text(encoding="utf-8") for file in files]
    words = {token.decode() for token in split_tokens(texts) if token != END_OF_TEXT}
    assert len(words) > 30_000
    assert {word: stem(word) for word in words} == {word: stem_by_nltk(word) for word in words}


@given(BASES, st.sampled_from(SUFFIXES), st.sampled_from(["", *SUFFIXES]))
def test_stems_of_suffixed_words_equal_those_of_nltk(base, first, second):
    word = base + first + second
    assert stem(word) == stem_by_nltk(word)


# Without one of these rules a later one gives the same stems.
REDUNDANT = {"sses", "ousness", "ement"}


@pytest.mark.parametrize("step", ["STEP_1A", "STEP_2", "STEP_3", "STEP_4"])
def test_recorded_stems_depend_on_every_rule(step, monkeypatch):
    words = STEMMED_WORDS.split()
    stems = [*map(stem, words)]
    rules = getattr(porter, step)
    for suffix in rules.keys() - REDUNDANT:
        remaining_rules = {key: rule for key, rule in rules.items() if key != suffix}
        monkeypatch.setattr(porter, step, remaining_rules)
        assert [*map(stem, words)] != stems, suffix
