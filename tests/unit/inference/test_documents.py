"""Tests of scoring documents: order, shards, scores that are not numbers."""

import numpy as np
import pandas as pd
import pytest
import torch

from aragorn.cache import Parts
from aragorn.engine import CPU
from aragorn.errors import CheckpointError
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.inference.pair_scoring import TokenCache, score_documents, score_texts
from aragorn.progress import Stopwatch
from tests.conftest import build_tiny_ranker

TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["Are zoos cruel?", "unheard of"]})
PREMISES = ["zoos are cruel", "golf every day", "", "wild animals in cages " * 40]
CORPUS = pd.DataFrame({"docno": list("abcd"), "premise": PREMISES})
TOKENS = TokenCache(TOPICS, lambda docnos: CORPUS[CORPUS["docno"].isin(docnos)], Stopwatch())
CANDIDATES = pd.DataFrame(
    {"qid": ["1", "1", "1", "2", "2", "1"], "docno": ["d", "a", "b", "a", "c", "c"]}
)


@pytest.fixture
def knrm():
    torch.manual_seed(0)
    words = ["zoos", "are", "cruel", "golf", "wild", "animals"]
    ranker, tokeniser = build_tiny_ranker("knrm", words)
    ranker.cpu_batch_size = ranker.shard_size = 2
    return RankerCheckpoint(ranker.eval(), tokeniser, "a test")


def score(checkpoint, directory, candidates=CANDIDATES):
    return score_documents(candidates, TOKENS, checkpoint, CPU, Parts(directory))


def test_candidates_are_scored_in_order(knrm, tmp_path):
    queries = dict(TOPICS.to_numpy().tolist())
    premises = dict(CORPUS.to_numpy().tolist())
    expected = [
        float(score_texts(knrm, [(queries[qid], premises[docno])])[0])
        for qid, docno in CANDIDATES.to_numpy()
    ]
    np.testing.assert_allclose(score(knrm, tmp_path), expected, rtol=0, atol=1e-6)
    assert len(set(expected)) > 3
    assert Parts(tmp_path).get_names() == ["00000", "00001", "00002"]
    assert score(knrm, tmp_path, CANDIDATES[:0]).shape == (0,)


def test_nan_scores_fail_with_their_document(knrm, tmp_path):
    torch.nn.init.constant_(knrm.network.linear.weight, torch.nan)
    with pytest.raises(CheckpointError, match="document d for topic 1"):
        score(knrm, tmp_path)
