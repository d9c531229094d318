from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission.errors import CheckpointError
from submission.inference.pair_scoring import TokenCache, score_documents
from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.models.padding import pad
from submission.models.rankers.gru import GRU
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
CPU = torch.device("cpu")
CANDIDATES = pd.DataFrame({"qid": ["1", "1", "1", "2", "2", "1"], "docno": ["d", "a", "b", "a", "c", "c"]})


def test_candidates_are_scored_once_in_order(checkpoints: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(KNRM, "cpu_batch_size", 2)
    monkeypatch.setattr(KNRM, "shard_size", 3)
    checkpoint = load_checkpoint(checkpoints / "knrm")
    scores = score_documents(CANDIDATES, TOKENS, checkpoint, CPU, ArtifactStore(tmp_path, {}))
    queries, premises = dict(TOPICS.to_numpy().tolist()), dict(CORPUS.to_numpy().tolist())
    with torch.no_grad():
        alone = [
            checkpoint.network(
                *pad([checkpoint.tokeniser.encode_query(queries[q])]), *pad([checkpoint.tokeniser.encode_premise(premises[d])])
            ).item()
            for q, d in CANDIDATES.to_numpy()
        ]
    np.testing.assert_allclose(scores, alone, rtol=0, atol=1e-6)
    assert len(set(alone)) > 3


def test_finished_shards_are_reused(checkpoints: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(KNRM, "cpu_batch_size", 2)
    monkeypatch.setattr(KNRM, "shard_size", 2)
    checkpoint = load_checkpoint(checkpoints / "knrm")
    first = score_documents(CANDIDATES, TOKENS, checkpoint, CPU, ArtifactStore(tmp_path, {}))
    assert sorted(file.name for file in tmp_path.glob("part*")) == [f"part-0000{index}.npy" for index in range(3)]
    (tmp_path / "part-00001.npy").write_bytes(b"\x93NUMPY damaged")  # damaged on disk: recomputed
    score_features, calls = checkpoint.network.score_features, []
    checkpoint.network.score_features = lambda features: calls.append(len(features)) or score_features(features)  # type: ignore
    again = score_documents(CANDIDATES, TOKENS, checkpoint, CPU, ArtifactStore(tmp_path, {}))
    assert (again == first).all()
    assert calls == [2]  # batches: two of one topic, one of the other


def test_nan_score_fails_with_its_document(checkpoints: Path, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(checkpoints / "knrm")
    checkpoint.network.score_features = lambda features: torch.full((len(features),), torch.nan)  # type: ignore
    with pytest.raises(CheckpointError, match="document d for topic 1"):
        score_documents(CANDIDATES, TOKENS, checkpoint, CPU, ArtifactStore(tmp_path, {}))


def test_premises_are_encoded_once_for_all_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GRU, "cpu_batch_size", 3)
    torch.manual_seed(1)
    tokeniser = WordTokeniser(Vocabulary(["zoos", "are", "cruel", "golf", "wild", "animals"]), MaxLengths())
    ranker = GRU(GRU.Config(vocabulary=8, dimensions=6, hidden=5)).eval()
    represent, read = ranker.encode_batch, []
    monkeypatch.setattr(ranker, "encode_batch", lambda ids, mask: read.extend(mask.sum(1).tolist()) or represent(ids, mask))
    scores = score_documents(
        CANDIDATES, TOKENS, RankerCheckpoint(ranker, tokeniser, "a test"), CPU, ArtifactStore(tmp_path, {})
    )
    assert read == [100, 0, 3, 3]  # "d" cut; "c", "a" and "b"
    pairs = [
        (tokeniser.encode_query(dict(TOPICS.to_numpy())[q]), tokeniser.encode_premise(dict(CORPUS.to_numpy())[d]))
        for q, d in CANDIDATES.to_numpy()
    ]
    with torch.no_grad():
        alone = [ranker(*pad([query]), *pad([document])).item() for query, document in pairs]
    np.testing.assert_allclose(scores, alone, rtol=0, atol=1e-6)
    assert len(set(alone)) == 6


def test_no_candidates(checkpoints: Path, tmp_path: Path) -> None:
    scores = score_documents(CANDIDATES[:0], TOKENS, load_checkpoint(checkpoints / "knrm"), CPU, ArtifactStore(tmp_path, {}))
    assert scores.shape == (0,)
