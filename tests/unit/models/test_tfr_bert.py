"""TFR-BERT's scores equal those of transformers' BERT with pooler and linear layer; the topic is read only if configured."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from submission.models.bert_config import QUERY_LENGTH
from submission.models.padding import pad
from submission.models.rankers.tfr_bert import TFRBERT
from tests.contract.test_rankers import BERT, texts

QUERIES, DOCUMENTS = [[], *texts(1, 7, 10)], [*texts(2, 6, 17), [], [5]]  # each document in one chunk


def ranker(topic: bool) -> TFRBERT:
    torch.manual_seed(0)
    return TFRBERT(TFRBERT.Config(bert=BERT, cls=2, sep=3, topic=topic)).double().eval()


def score_with_transformers(ours: TFRBERT, queries: list[list[int]]) -> Tensor:
    """Score pairs one by one with transformers' network."""
    bert = BertModel(BertConfig(**BERT), add_pooling_layer=True).double().eval()
    pooler = {f"pooler.dense.{name}": value for name, value in ours.pooler.state_dict().items()}
    bert.load_state_dict({**ours.encoder.bert.state_dict(), **pooler})
    linear = nn.Linear(16, 1).double()
    linear.load_state_dict(ours.linear.state_dict())
    scores = []
    for query, document in zip(queries, DOCUMENTS, strict=True):
        first, second = [2, *query, 3], [*document, 3]
        positions = [*range(len(first) - 1), *range(QUERY_LENGTH + 1, QUERY_LENGTH + 2 + len(second))]
        inputs = {
            "input_ids": torch.tensor([first + second]),
            "token_type_ids": torch.tensor([[0] * len(first) + [1] * len(second)]),
            "position_ids": torch.tensor([positions]),
        }
        scores.append(linear(bert(**inputs).pooler_output).flatten())
    return torch.cat(scores)


@torch.no_grad()
def test_scores_equal_transformers() -> None:
    ours = ranker(topic=True)
    actual = ours(*pad(QUERIES), *pad(DOCUMENTS))
    assert actual.std() > 1e-3
    torch.testing.assert_close(actual, score_with_transformers(ours, QUERIES), rtol=0, atol=1e-9)


@torch.no_grad()
def test_topic_is_ignored_if_disabled() -> None:
    ours = ranker(topic=False)
    actual = ours(*pad(QUERIES), *pad(DOCUMENTS))
    assert torch.equal(actual, ours(*pad(QUERIES[::-1]), *pad(DOCUMENTS)))
    assert torch.equal(actual, ours(*pad([[9] * 20] * len(DOCUMENTS)), *pad(DOCUMENTS)))
    torch.testing.assert_close(actual, score_with_transformers(ours, [[]] * len(DOCUMENTS)), rtol=0, atol=1e-9)
    assert (actual - ranker(topic=True)(*pad(QUERIES), *pad(DOCUMENTS))).abs().max() > 1e-3
