"""Test that SNRM's `encode_batch`, over distinct words, gives the vectors and gradients of the convolution in `encode`."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from submission.models.padding import pad
from submission.models.rankers.snrm import LATENT_TERM_BATCH, SNRM, TEXT_BATCH

TEXTS = [[], [5], [1, 6], [3, 4, 1, 3], list(range(2, 12)), *[[7, 7, 1, 9, 8, 7, 2] * count for count in range(1, 7)]]


def build_network(hidden: tuple[int, ...] = (), *, latent: int = 9, padded: bool = False, length: float = 1.0) -> SNRM:
    torch.manual_seed(3)
    return SNRM(SNRM.Config(vocabulary=12, dimensions=6, latent=latent, hidden=hidden, padded=padded, length=length)).double()


@pytest.mark.parametrize("length", [0.5, 1.0])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("hidden", [(), (5,)])
def test_deduplicated_words_keep_vectors_and_gradients(hidden: tuple[int, ...], padded: bool, length: float) -> None:
    ranker, results = build_network(hidden, latent=259, padded=padded, length=length), list[list[Tensor]]()
    assert (len(TEXTS), 259) > (TEXT_BATCH, LATENT_TERM_BATCH)
    factors = torch.randn(len(TEXTS), 259, dtype=torch.float64)
    for represent in (ranker.encode, ranker.encode_batch):
        vectors = represent(*pad(TEXTS))
        results.append([vectors, *torch.autograd.grad((vectors * factors).sum(), list(ranker.parameters()))])
    assert all((tensor != 0).any() for tensor in results[0])
    with torch.no_grad():
        results[0].append(results[0][0])
        results[1].append(ranker.encode_batch(*pad(TEXTS)))  # in batches of latent terms
    for plain, deduplicated in zip(*results, strict=True):
        torch.testing.assert_close(deduplicated, plain, rtol=0, atol=1e-11)


@torch.no_grad()
def test_padded_text_has_a_window_per_word() -> None:
    ranker = build_network(padded=True, length=0)
    vectors, weight = ranker.embedding.weight, ranker.layers[0].weight  # (12, 6) and (9, 6, 5)
    windows = [weight[:, :, 2 - i] @ vectors[4] + weight[:, :, 3 - i] @ vectors[6] for i in range(2)]
    expected = windows[0].relu() + windows[1].relu()
    torch.testing.assert_close(ranker.encode(*pad([[4, 6]]))[0], expected, rtol=0, atol=1e-12)
    divided = build_network(padded=True, length=0.5).encode(*pad([[4, 6]]))[0]
    torch.testing.assert_close(divided, expected / 2**0.5, rtol=0, atol=1e-12)
    assert ranker.encode(*pad([[], [1, 1]])).eq(0).all()  # an empty text and one of unknown words only
