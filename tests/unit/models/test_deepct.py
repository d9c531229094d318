"""DeepCT: weights are independent of the batch, and the weights of passages add up to term frequencies."""

from __future__ import annotations

import numpy as np
import torch

from submission.models.enricher import TokenAnnotation
from submission.models.enrichers.deepct import DeepCT
from submission.models.padding import pad
from submission.text.passages import PassageReader
from tests.conftest import TINY_BERT, build_tiny_tokenizer

TEXTS = ["topic filler topic abc", "filler", "", "topic " * 30 + "filler abc. abc!", "abc filler"]
BERT = {**TINY_BERT, "max_position_embeddings": 64, "vocab_size": 58}


def make_network(frozen: int = 0) -> DeepCT:
    torch.manual_seed(0)
    return DeepCT(DeepCT.Config(bert=BERT, cls=2, sep=3, words=12, pieces=60, dropout=0.5, frozen=frozen))


@torch.no_grad()
def test_weights_do_not_depend_on_the_batch() -> None:
    network, reader = make_network().eval(), PassageReader(build_tiny_tokenizer(), 12, 60)
    passages = [passage for text in TEXTS for passage in reader.split(text)]
    together = network.annotate(passages)
    assert [len(words) for words in together] == [4, 1, 12, 12, 11, 2]
    for passage, words in zip(passages, together, strict=True):
        [alone] = network.annotate([passage])
        assert [word.surface for word in alone] == [word.surface for word in words] == passage.words
        np.testing.assert_allclose([word.weight for word in alone], [word.weight for word in words], rtol=0, atol=1e-5)


def test_dropout_and_frozen_layers_in_training() -> None:
    network, (ids, mask) = make_network(frozen=1), pad([[4, 5, 6, 7], [8]])
    assert not torch.equal(network(ids, mask), network(ids, mask))
    network(ids, mask).square().sum().backward()
    without = {name for name, value in network.named_parameters() if value.grad is None}
    assert without == network.get_omitted_tensors()
    assert {name.split(".")[2] for name in without} == {"embeddings", "encoder"}
    assert not any("layer.1" in name for name in without)


def test_term_frequencies_match_hand_computed_values() -> None:
    first, second = (
        [TokenAnnotation(word, 0, len(word), weight) for word, weight in passage]
        for passage in (
            [("cage", 0.304), ("the", -0.2), ("cage", 0.5), ("cages", 0.004)],
            [("cages", 0.125), ("cage", 1.21), ("", 0.9), ("zoo", 0.0051)],
        )
    )
    network = make_network()
    # "cage": 50 + 121; "cages": 0.4 is dropped, 12.5 rounds to 12; unknown words are dropped
    assert network.compute_term_frequencies([first, second]) == {"cage": 171, "cages": 12, "zoo": 1}
    assert network.compute_term_frequencies([]) == {}
