"""Test that the components that TARGER indexes have the original text."""

from __future__ import annotations

from submission.models.enricher import TokenAnnotation
from submission.models.enrichers.targer import TARGER, join_adjacent
from submission.text.surface_tokens import SurfaceReader
from submission.text.vocabulary import Vocabulary

TEXT = "The women's rights (since 1920) are good. Zoos aren't."


def build_reader() -> SurfaceReader:
    return SurfaceReader(Vocabulary(["the", "women", "zoos", "rights", "good", "are", "0000", ".", "'", "s"]), 512)


def tag_text(letters: str) -> list[TokenAnnotation]:
    """Return the tokens of TEXT, each tagged by a letter: p for a premise, m a major claim, b a backing, else O."""
    labels = {"p": "I-P", "m": "B-MC", "b": "I-B"}
    [passage] = build_reader().split(TEXT)
    rows = zip(passage.tokens, passage.spans, letters, strict=True)
    return [TokenAnnotation(word, start, end, float(key in "pm"), labels.get(key, "O")) for word, (start, end), key in rows]


def test_indexed_components_have_the_original_text() -> None:
    frequencies = TARGER(TARGER.Config(12, ("O",))).compute_word_frequencies
    premise = tag_text("p" * 17)
    assert join_adjacent(premise) == TEXT.split()
    assert frequencies([premise, premise[:1]]) == {**dict.fromkeys(TEXT.split(), 1), "The": 2}
    words = tag_text("opppp" + "bbbb" + "mm" + "ppp" + "opp")
    assert join_adjacent(words) == ["women's", "rights", "are", "good.", "Zoos", "aren", "t."]
    assert join_adjacent(tag_text("pop" + "o" * 14)) == ["The", "'"]
    assert frequencies([tag_text("ob" + "o" * 15)]) == {}
    assert frequencies([]) == {}
