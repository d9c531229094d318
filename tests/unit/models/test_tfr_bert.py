"""Test that TFR-BERT's scores, with and without the topic, equal those of transformers' BERT with pooler and linear layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from submission.models.bert_config import QUERY_LENGTH
from submission.models.padding import pad
from submission.models.rankers.tfr_bert import TFRBERT
from tests.contract.test_rankers import BERT, generate_texts

QUERIES, DOCUMENTS = [[], *generate_texts(1, 7, 10)], [*generate_texts(2, 6, 17), [], [5]]  # each document in one chunk


def score_with_transformers(ranker: TFRBERT, queries: list[list[int]]) -> Tensor:
    """Score each query with its document of DOCUMENTS by transformers' BERT, with the weights of `ranker`."""
    bert = BertModel(BertConfig(**BERT), add_pooling_layer=True).double().eval()
    pooler = {f"pooler.dense.{name}": value for name, value in ranker.pooler.state_dict().items()}
    bert.load_state_dict({**ranker.encoder.bert.state_dict(), **pooler})
    linear = nn.Linear(16, 1).double()
    linear.load_state_dict(ranker.linear.state_dict())
    scores = []
    for query, document in zip(queries, DOCUMENTS, strict=True):
        first, second = [2, *query, 3], [*document, 3]
        positions = [*range(len(first) - 1), *range(QUERY_LENGTH + 1, QUERY_LENGTH + 2 + len(second))]
        types = [0] * len(first) + [1] * len(second)
        inputs = {"input_ids": first + second, "token_type_ids": types, "position_ids": positions}
        scores.append(linear(bert(**{name: torch.tensor([row]) for name, row in inputs.items()}).pooler_output).flatten())
    return torch.cat(scores)


@torch.no_grad()
@pytest.mark.parametrize(
    ("topic", "queries"), [(True, QUERIES), (False, [[]] * 8)], ids=["topic and premise", "only the premise"]
)
def test_scores_equal_transformers(topic: bool, queries: list[list[int]]) -> None:
    torch.manual_seed(0)
    ranker = TFRBERT(TFRBERT.Config(bert=BERT, cls=2, sep=3, topic=topic)).double().eval()
    scores = ranker(*pad(QUERIES), *pad(DOCUMENTS))
    assert scores.std() > 1e-3
    torch.testing.assert_close(scores, score_with_transformers(ranker, queries), rtol=0, atol=1e-9)
    assert torch.equal(scores, ranker(*pad(QUERIES[::-1]), *pad(DOCUMENTS))) is not topic
