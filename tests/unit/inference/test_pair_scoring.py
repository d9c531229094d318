"""Tests of the scores of candidates: order, batches, shards, NaN, and tokens that tokenisers share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission.engine.base import CPU
from submission.errors import CheckpointError
from submission.inference.pair_scoring import TokenCache, score_documents
from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.models.padding import pad
from submission.models.ranker import Ranker
from submission.models.rankers.knrm import KNRM
from submission.storage.artifact_store import ArtifactStore
from submission.text.tokenisers import MaxLengths, WordTokeniser
from submission.text.vocabulary import Vocabulary
from submission.timing import Stopwatch

TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["Are zoos cruel?", "unheard of"]})
CORPUS = pd.DataFrame(
    {"docno": ["a", "b", "c", "d"], "premise": ["zoos are cruel", "golf every day", "", "wild animals in cages " * 40]}
)
TOKENS = TokenCache(TOPICS, lambda docnos: CORPUS[CORPUS["docno"].isin(docnos)], Stopwatch())
CANDIDATES = pd.DataFrame({"qid": ["1", "1", "1", "2", "2", "1"], "docno": ["d", "a", "b", "a", "c", "c"]})
WORDS = ["zoos", "are", "cruel", "golf", "wild", "animals"]


def make_checkpoint(ranker: Ranker, batch_size: int, shard_size: int) -> RankerCheckpoint:
    ranker.cpu_batch_size, ranker.shard_size = batch_size, shard_size
    return RankerCheckpoint(ranker.eval(), WordTokeniser(Vocabulary(WORDS), MaxLengths()), "a test")


@pytest.fixture
def knrm() -> RankerCheckpoint:
    torch.manual_seed(0)
    return make_checkpoint(KNRM(KNRM.Config(vocabulary=8, dimensions=8)), batch_size=2, shard_size=2)


def score(checkpoint: RankerCheckpoint, directory: Path, candidates: pd.DataFrame = CANDIDATES) -> np.ndarray:
    return score_documents(candidates, TOKENS, checkpoint, CPU, ArtifactStore(directory, {}))


@torch.no_grad()
def score_individually(checkpoint: RankerCheckpoint) -> list[float]:
    """Return the scores of CANDIDATES, each computed in a batch of one pair."""
    queries, premises = dict(TOPICS.to_numpy().tolist()), dict(CORPUS.to_numpy().tolist())
    encode = checkpoint.tokeniser
    pairs = [(encode.encode_query(queries[q]), encode.encode_premise(premises[d])) for q, d in CANDIDATES.to_numpy()]
    return [checkpoint.network(*pad([query]), *pad([document])).item() for query, document in pairs]


def test_candidates_are_scored_in_order(knrm: RankerCheckpoint, tmp_path: Path) -> None:
    expected = score_individually(knrm)
    np.testing.assert_allclose(score(knrm, tmp_path), expected, rtol=0, atol=1e-6)
    assert len(set(expected)) > 3
    assert sorted(file.name for file in tmp_path.glob("part*")) == [f"part-0000{index}.npy" for index in range(3)]
    assert score(knrm, tmp_path, CANDIDATES[:0]).shape == (0,)


def test_nan_scores_fail_with_their_document(knrm: RankerCheckpoint, tmp_path: Path) -> None:
    torch.nn.init.constant_(knrm.network.linear.weight, torch.nan)
    with pytest.raises(CheckpointError, match="document d for topic 1"):
        score(knrm, tmp_path)


def test_documents_are_loaded_once_for_equal_tokens() -> None:
    loads: list[str] = []

    def load(docnos: Iterable[str]) -> pd.DataFrame:
        loads.extend(docnos)
        return CORPUS[CORPUS["docno"].isin(loads)]

    tokens = TokenCache(TOPICS, load, Stopwatch())
    golf, cruel = (WordTokeniser(Vocabulary([word]), MaxLengths()) for word in ("golf", "cruel"))
    truncating = WordTokeniser(Vocabulary(["zoos"]), MaxLengths(premise=1))
    calls = [(golf, ["b"]), (cruel, ["a", "b", "a"]), (truncating, ["a"])]
    ids = [tokens.get_premise_token_ids(*call) for call in calls]
    expected = [{"b": [2, 1, 1]}, {"a": [1, 1, 2], "b": [1, 1, 1]}, {"a": [2]}]
    assert [{docno: values.tolist() for docno, values in by_docno.items()} for by_docno in ids] == expected
    assert loads == ["b", "a", "a"]  # the last tokeniser shares no tokens
    assert tokens.get_query_token_ids(golf) == {"1": [1, 1], "2": [1]}
