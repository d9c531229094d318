"""Test that Vanilla BERT's last layer, computed only for [CLS], gives the scores and gradients of the full layer."""

from __future__ import annotations

from copy import deepcopy

import torch
from transformers.models.bert.modeling_bert import BertLayer

from submission.models.padding import pad
from submission.models.rankers.vanilla_bert import VanillaBERT
from tests.contract.test_rankers import build, generate_texts

INPUTS = (*pad([[], *generate_texts(1, 8, 10)]), *pad([*generate_texts(2, 7, 40), [], [5]]))


def test_cls_only_layer_preserves_scores_and_gradients() -> None:
    network = build("vanilla_bert").double().train()
    assert isinstance(network, VanillaBERT)
    plain = deepcopy(network)
    plain.encoder.bert.encoder.layer[-1].__class__ = BertLayer
    scores = []
    for ranker in (network, plain):
        torch.manual_seed(0)  # for dropout
        scores.append(ranker(*INPUTS))
        scores[-1].sum().backward()
    assert scores[0].std() > 1e-3
    assert torch.equal(*scores)
    for parameter, expected in zip(network.parameters(), plain.parameters(), strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, expected.grad)
    with torch.no_grad():
        assert (network.eval()(*INPUTS) - plain.eval()(*INPUTS)).abs().max() < 1e-12
        widths = [layer.shape[1] for layer in network.encoder(*INPUTS)._layers]
    assert widths[0] > widths[-1] == 1
