"""Conv-KNRM compared with plain loops, for cases without golden values: n-grams of short texts, unknown words."""

from __future__ import annotations

import math
from itertools import product

import torch
from torch import Tensor

from submission.models.padding import pad
from submission.models.rankers.conv_knrm import NGRAM_PAIRS, ConvKNRM

MUS = [1.0] + [0.95 - 0.1 * index for index in range(20)]
SIGMAS = [0.001] + [0.1] * 20


def build_ngrams(network: ConvKNRM, text: list[int], window: int) -> list[Tensor]:
    """Return the unit vectors of the n-grams inside a text that have no unknown word."""
    convolution = network.convolutions[window - 1]
    vectors = []
    for words in (text[start : start + window] for start in range(len(text) - window + 1)):
        if 1 not in words:
            terms = [convolution.weight[:, :, offset] @ network.embedding.weight[word] for offset, word in enumerate(words)]
            vectors.append(torch.stack([convolution.bias, *terms]).sum(0).clamp(min=0) + 1e-9)
    return [vector / vector.norm() for vector in vectors]


def score(network: ConvKNRM, query: list[int], document: list[int]) -> float:
    total, weights = float(network.linear.bias), iter(network.linear.weight[0].tolist())
    for (q, d), (mu, sigma) in product(NGRAM_PAIRS, zip(MUS, SIGMAS, strict=True)):
        weight, document_ngrams = next(weights), build_ngrams(network, document, d)
        for query_ngram in build_ngrams(network, query, q):
            similarities = [float(query_ngram @ ngram) for ngram in document_ngrams]
            count = sum(math.exp(-((similarity - mu) ** 2) / (2 * sigma**2)) for similarity in similarities)
            total += weight * 0.01 * math.log(max(count, 1e-10))
    return math.tanh(total)


@torch.no_grad()
def test_conv_knrm_equals_loops() -> None:
    torch.manual_seed(0)
    network = ConvKNRM(ConvKNRM.Config(vocabulary=20, dimensions=5, channels=7)).double().eval()
    network.linear.weight.mul_(0.05)  # keep tanh unsaturated
    queries = [[5, 6, 7, 8], [5, 1, 7], [9], [], [4, 5], [1, 1, 1]]
    documents = [[5, 6, 7, 8, 9, 10, 5, 6], [3, 5, 1, 7, 2, 4], [9, 9], [4, 5, 6], [], [1, 1, 1, 5]]
    actual = network(*pad(queries), *pad(documents))
    expected = [score(network, query, document) for query, document in zip(queries, documents, strict=True)]
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)
    assert max(abs(value) for value in expected) < 0.95
