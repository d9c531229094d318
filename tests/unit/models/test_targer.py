"""TARGER: tags are independent of the batch, and components have the original text."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from submission.models.enricher import TokenAnnotation
from submission.models.enrichers.targer import TARGER, join_adjacent
from submission.text.surface_tokens import CHARACTER_ID_COUNT, SurfaceReader
from submission.text.vocabulary import Vocabulary

TAGS = ("O", "B-P", "I-P")


def network(cell: Literal["lstm", "gru"] = "lstm") -> TARGER:
    torch.manual_seed(0)
    config = TARGER.Config(12, TAGS, CHARACTER_ID_COUNT, 8, 5, filters=3, cell=cell, hidden=7)
    return TARGER(config).eval()


TEXT = "The women's rights (since 1920) are good. Zoos aren't."


def reader() -> SurfaceReader:
    return SurfaceReader(Vocabulary(["the", "women", "zoos", "rights", "good", "are", "0000", ".", "'", "s"]), 512)


def tagged(tags: str) -> list[TokenAnnotation]:
    """Return the tokens of TEXT with these tags: p is a premise, m a major claim, b a backing, others are outside."""
    labels = {"p": "I-P", "m": "B-MC", "b": "I-B"}
    [passage] = reader().split(TEXT)
    rows = zip(passage.tokens, passage.spans, tags, strict=True)
    return [TokenAnnotation(word, start, end, float(tag in "pm"), labels.get(tag, "O")) for word, (start, end), tag in rows]


def test_indexed_components_have_the_original_text() -> None:
    frequencies = network().compute_term_frequencies
    everything = tagged("p" * 17)
    assert join_adjacent(everything) == TEXT.split()
    assert frequencies([everything, everything[:1]]) == {**dict.fromkeys(TEXT.split(), 1), "The": 2}
    words = tagged("opppp" + "bbbb" + "mm" + "ppp" + "opp")
    assert join_adjacent(words) == ["women's", "rights", "are", "good.", "Zoos", "aren", "t."]
    assert join_adjacent(tagged("pop" + "o" * 14)) == ["The", "'"]
    assert frequencies([tagged("ob" + "o" * 15)]) == {}
    assert frequencies([]) == {}


@torch.no_grad()
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_tags_and_positions_do_not_depend_on_the_batch(cell: Literal["lstm", "gru"]) -> None:
    tagger = network(cell)
    tagger.embedding.weight[2:] *= 30
    tagger.crf.transitions[1:-1, 1:] = 0
    texts = [TEXT, "Zoos!", "Are zoos good? The women's Zoos " * 9]
    passages = [passage for text in texts for passage in reader().split(text)]
    together = tagger.annotate(passages)
    assert {word.label for words in together for word in words} == set(TAGS)
    for passage, words in zip(passages, together, strict=True):
        assert tagger.annotate([passage]) == [words]
        assert [word.surface for word in words] == passage.tokens
        assert [passage.text[word.start : word.end] for word in words] == passage.tokens
        assert all(word.weight == float(word.label != "O") for word in words)
