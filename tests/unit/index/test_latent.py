"""Tests of the latent index of SNRM against dot products of dense vectors."""

import numpy as np
import pandas as pd
import pytest
import torch

from aragorn.cache import Cache
from aragorn.engine import CPU
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.models.network import pad
from aragorn.rankings import MAX_DEPTH
from aragorn.systems.latent import LatentIndex, build_latent_index, search
from tests.conftest import build_text_lookup, build_tiny_ranker

WORDS = [f"w{chr(97 + i)}" for i in range(20)]
TOPICS = pd.DataFrame(
    {"qid": ["1", "2", "3"], "query": ["wa wb wc", "wd we wf wg wh wi", "unheard"]}
)
DOCNOS = [f"d{row:04}" for row in range(1100)]


@pytest.fixture(scope="module")
def checkpoint():
    torch.manual_seed(1)
    ranker, tokeniser = build_tiny_ranker("snrm", WORDS, dimensions=6, latent=50)
    with torch.no_grad():
        ranker.embedding.weight.abs_()
        ranker.embedding.weight[1] = 0  # unknown
        for layer in ranker.layers:
            layer.weight -= 0.03  # many latent terms stay inactive
    return RankerCheckpoint(ranker.eval(), tokeniser, "a test")


@pytest.fixture(scope="module")
def premises():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in DOCNOS]
    texts[7] = texts[3]  # a tie
    texts[11] = "unheard words only"
    return texts


@pytest.fixture
def index(checkpoint, premises, small_shards, tmp_path):
    lookup = build_text_lookup(pd.DataFrame({"docno": DOCNOS, "premise": premises}))
    directory = tmp_path / "index"
    directory.mkdir()
    build_latent_index(directory, DOCNOS, lookup, checkpoint, CPU, Cache(tmp_path).parts("i", ""))
    return LatentIndex(directory, len(DOCNOS))


@pytest.fixture(scope="module")
def vectors(checkpoint, premises):
    """Return the vectors of topics and of documents as arrays (texts, latent terms)."""
    encode = checkpoint.network.encode
    tokeniser = checkpoint.tokeniser
    with torch.no_grad():
        queries = [encode(*pad([tokeniser.encode_query(query)])) for query in TOPICS["query"]]
        documents = encode(*pad([tokeniser.encode_premise(premise) for premise in premises]))
    return torch.cat(queries).numpy(), documents.numpy()


def test_scores_equal_dense_dot_products(index, vectors):
    queries, documents = vectors
    assert 0.3 < (documents == 0).mean() < 0.99
    assert len(index._by_term.values) == (documents > 0).sum()
    assert index.sparsity == pytest.approx((documents == 0).mean())
    for query in queries:
        np.testing.assert_allclose(index.score_all(query), documents @ query, rtol=0, atol=1e-6)


def test_search_returns_positive_scores_in_order(checkpoint, index, vectors, caplog):
    ranking = search(TOPICS, DOCNOS, checkpoint, index)
    for qid, query in zip("12", vectors[0], strict=False):
        scores = index.score_all(query)
        rows = [row for row in np.lexsort((DOCNOS, -scores)) if scores[row] > 0][:MAX_DEPTH]
        topic = ranking[ranking["qid"] == qid]
        assert topic["docno"].tolist() == [DOCNOS[row] for row in rows]
        assert topic["score"].tolist() == scores[rows].tolist()
    assert ranking.groupby("qid").size().max() == MAX_DEPTH
    assert set(ranking["qid"]) == {"1", "2"}
    assert "topic 3 (unheard): no document shares a latent term" in caplog.text
