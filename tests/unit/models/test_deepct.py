"""Test that DeepCT's word weights are independent of the batch."""

from __future__ import annotations

import numpy as np
import torch

from submission.models.enrichers.deepct import DeepCT
from submission.text.passages import PassageReader
from tests.conftest import TINY_BERT, build_tiny_tokenizer

TEXTS = ["topic filler topic abc", "filler", "", "topic " * 30 + "filler abc. abc!", "abc filler"]
BERT = {**TINY_BERT, "max_position_embeddings": 64, "vocab_size": 58}


@torch.no_grad()
def test_weights_do_not_depend_on_the_batch() -> None:
    torch.manual_seed(0)
    network = DeepCT(DeepCT.Config(bert=BERT, cls=2, sep=3, words=12, pieces=60)).eval()
    reader = PassageReader(build_tiny_tokenizer(), 12, 60)
    passages = [passage for text in TEXTS for passage in reader.split(text)]
    batched = network.annotate(passages)
    assert [len(words) for words in batched] == [4, 1, 12, 12, 11, 2]
    for passage, words in zip(passages, batched, strict=True):
        [single] = network.annotate([passage])
        assert [word.surface for word in single] == [word.surface for word in words] == passage.words
        np.testing.assert_allclose([word.weight for word in single], [word.weight for word in words], rtol=0, atol=1e-5)
