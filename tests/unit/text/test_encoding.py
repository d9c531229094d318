from __future__ import annotations

from pathlib import Path

import pytest

from submission.text.tokenisers import MaxLengths, WordTokeniser
from submission.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["zoos", "are", "cruel", "é"])


def test_vocabulary_ids_survive_a_round_trip(tmp_path: Path) -> None:
    (tmp_path / "v").write_text(VOCABULARY.to_text(), encoding="utf-8")
    for vocabulary in (VOCABULARY, Vocabulary.load(tmp_path / "v")):
        assert vocabulary.get_ids(["zoos", "never", "é"]) == [2, 1, 5]
        assert len(vocabulary) == 6


@pytest.mark.parametrize(
    ("terms", "cause"), [(["a", "a"], "duplicate terms in the vocabulary: 1"), (["a b"], "term 'a b'"), ([""], "term ''")]
)
def test_invalid_vocabulary_raises(terms: list[str], cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        Vocabulary(terms)


def test_texts_are_truncated_to_max_lengths() -> None:
    tokeniser = WordTokeniser(VOCABULARY, MaxLengths(query=2, premise=3))
    assert tokeniser.encode_query("Are zoos really so cruel?") == [2, 1]  # "are" and "so" are stop words
    assert tokeniser.encode_premise("Zoos, are cruel") == [2, 1, 3]
