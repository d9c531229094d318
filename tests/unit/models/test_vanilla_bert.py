"""Vanilla BERT computes its last layer only for [CLS]; its scores equal those of a full layer."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor
from transformers.models.bert.modeling_bert import BertLayer

from submission.models.padding import pad
from submission.models.rankers.vanilla_bert import VanillaBERT
from tests.contract.test_rankers import build, texts

QUERIES, DOCUMENTS = [[], *texts(1, 8, 10)], [*texts(2, 7, 40), [], [5]]


@pytest.fixture
def networks() -> tuple[VanillaBERT, VanillaBERT]:
    """Return the network and a copy with full layers only."""
    network = build("vanilla_bert").double()
    assert isinstance(network, VanillaBERT)
    plain = deepcopy(network)
    plain.encoder.bert.encoder.layer[-1].__class__ = BertLayer
    return network, plain


def score(network: VanillaBERT) -> Tensor:
    torch.manual_seed(0)  # for dropout
    return network(*pad(QUERIES), *pad(DOCUMENTS))


@torch.no_grad()
def test_cls_only_layer_preserves_scores(networks: tuple[VanillaBERT, VanillaBERT]) -> None:
    network, plain = networks
    assert score(plain).std() > 1e-3
    assert (score(network) - score(plain)).abs().max() < 1e-12
    widths = [layer.shape[1] for layer in network.encoder(*pad(QUERIES), *pad(DOCUMENTS))._layers]
    assert widths[0] > widths[-1] == 1


def test_cls_only_layer_preserves_gradients(networks: tuple[VanillaBERT, VanillaBERT]) -> None:
    for network in networks:
        score(network.train()).sum().backward()
    assert torch.equal(*map(score, networks))
    gradients = [[tensor.grad for tensor in network.parameters()] for network in networks]
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))
