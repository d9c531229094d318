"""Vanilla BERT computes its last layer only for [CLS]; its scores equal those of a full layer."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor
from transformers.models.bert.modeling_bert import BertLayer

from submission.models.bert import ClsOnlyLayer
from submission.models.padding import pad
from submission.models.rankers.vanilla_bert import VanillaBERT
from tests.contract.test_rankers import build, texts

QUERIES, DOCUMENTS = [[], *texts(1, 8, 10)], [*texts(2, 7, 40), [], [5]]


def networks() -> tuple[VanillaBERT, VanillaBERT]:
    """Return the network and a copy with full layers only."""
    ours = build("vanilla_bert").double()
    assert isinstance(ours, VanillaBERT)
    plain = deepcopy(ours)
    plain.encoder.bert.encoder.layer[-1].__class__ = BertLayer
    return ours, plain


def score(network: VanillaBERT, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)  # for dropout
    return network(*pad(QUERIES), *pad(DOCUMENTS))


@torch.no_grad()
def test_cls_only_layer_preserves_scores() -> None:
    ours, plain = networks()
    assert score(plain).std() > 1e-3
    assert (score(ours) - score(plain)).abs().max() < 1e-12
    widths = [layer.shape[1] for layer in ours.encoder(*pad(QUERIES), *pad(DOCUMENTS))._layers]
    assert widths[0] > widths[-1] == 1


def test_cls_only_layer_preserves_gradients() -> None:
    ours, plain = (network.train() for network in networks())
    assert isinstance(ours.encoder.bert.encoder.layer[-1], ClsOnlyLayer)
    assert not torch.equal(score(ours), score(ours, 1))
    assert torch.equal(score(ours), score(plain))
    for network in (ours, plain):
        score(network).sum().backward()
    gradients = [[tensor.grad for tensor in network.parameters()] for network in (ours, plain)]
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))
