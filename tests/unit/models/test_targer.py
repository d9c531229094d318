"""Tests of TARGER: indexed components have the original text, and tags are independent of the batch."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from submission.models.enricher import TokenAnnotation
from submission.models.enrichers.targer import TARGER, join_adjacent
from submission.text.surface_tokens import CHARACTER_ID_COUNT, SurfaceReader
from submission.text.vocabulary import Vocabulary

TAGS = ("O", "B-P", "I-P")


def build_network(cell: Literal["lstm", "gru"] = "lstm") -> TARGER:
    torch.manual_seed(0)
    config = TARGER.Config(12, TAGS, CHARACTER_ID_COUNT, 8, 5, filters=3, cell=cell, hidden=7)
    return TARGER(config).eval()


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
    frequencies = build_network().compute_word_frequencies
    premise = tag_text("p" * 17)
    assert join_adjacent(premise) == TEXT.split()
    assert frequencies([premise, premise[:1]]) == {**dict.fromkeys(TEXT.split(), 1), "The": 2}
    words = tag_text("opppp" + "bbbb" + "mm" + "ppp" + "opp")
    assert join_adjacent(words) == ["women's", "rights", "are", "good.", "Zoos", "aren", "t."]
    assert join_adjacent(tag_text("pop" + "o" * 14)) == ["The", "'"]
    assert frequencies([tag_text("ob" + "o" * 15)]) == {}
    assert frequencies([]) == {}


@torch.no_grad()
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_tags_and_positions_do_not_depend_on_the_batch(cell: Literal["lstm", "gru"]) -> None:
    tagger = build_network(cell)
    tagger.embedding.weight[2:] *= 30
    tagger.crf.transitions[1:-1, 1:] = 0
    texts = [TEXT, "Zoos!", "Are zoos good? The women's Zoos " * 9]
    passages = [passage for text in texts for passage in build_reader().split(text)]
    batched = tagger.annotate(passages)
    assert {word.label for words in batched for word in words} == set(TAGS)
    for passage, words in zip(passages, batched, strict=True):
        assert tagger.annotate([passage]) == [words]
        assert [word.surface for word in words] == passage.tokens
        assert [passage.text[word.start : word.end] for word in words] == passage.tokens
        assert all(word.weight == float(word.label != "O") for word in words)
