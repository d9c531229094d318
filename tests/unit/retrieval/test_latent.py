"""SNRM's index compared with the dense dot product and with the reference code's index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.models.padding import pad
from submission.models.rankers.snrm import SNRM
from submission.retrieval import latent
from submission.retrieval.latent import LatentIndex, load_or_build_latent_index, search
from submission.retrieval.sparse_matrix import CSR_FILES, merge_shards
from submission.storage.artifact_store import ArtifactStore
from submission.text.tokenisers import MaxLengths, WordTokeniser
from submission.text.vocabulary import Vocabulary
from tests.conftest import build_text_lookup
from tests.golden.test_snrm import TEXTS, load

CPU = torch.device("cpu")
WORDS = [f"w{chr(97 + i)}" for i in range(20)]
TOPICS = pd.DataFrame({"qid": ["1", "2", "3"], "query": ["wa wb wc", "wd we wf wg wh wi", "unheard"]})


@pytest.fixture
def checkpoint() -> RankerCheckpoint:
    torch.manual_seed(1)
    tokeniser = WordTokeniser(Vocabulary(WORDS), MaxLengths())
    ranker = SNRM(SNRM.Config(vocabulary=22, dimensions=6, latent=50)).eval()
    with torch.no_grad():
        ranker.embedding.weight.abs_()
        ranker.embedding.weight[1] = 0  # unknown
        for layer in ranker.layers:
            layer.weight -= 0.03  # many latent terms stay inactive
    return RankerCheckpoint(ranker, tokeniser, "a test")


@pytest.fixture
def corpus() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    premises = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in range(60)]
    premises[7] = premises[3]  # a tie
    premises[11] = "unheard words only"
    return pd.DataFrame({"docno": [f"d{row:02}" for row in range(60)], "premise": premises})


def build(checkpoint: RankerCheckpoint, corpus: pd.DataFrame, directory: Path) -> LatentIndex:
    return load_or_build_latent_index(
        corpus["docno"].tolist(), build_text_lookup(corpus), checkpoint, CPU, ArtifactStore(directory, {})
    )


@torch.no_grad()
def dense(checkpoint: RankerCheckpoint, texts: list[str], query: bool = False) -> np.ndarray:
    read = checkpoint.tokeniser.encode_query if query else checkpoint.tokeniser.encode_premise
    return checkpoint.network.encode(*pad([read(text) for text in texts])).numpy()


def test_scores_equal_dense_dot_products(
    checkpoint: RankerCheckpoint, corpus: pd.DataFrame, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(latent, "SHARD_SIZE", 16)
    monkeypatch.setattr(latent, "BATCH_SIZE", 4)
    index = build(checkpoint, corpus, tmp_path)
    documents, queries = dense(checkpoint, corpus["premise"].tolist()), dense(checkpoint, TOPICS["query"].tolist(), True)
    assert 0.3 < (documents == 0).mean() < 0.99
    assert len(index._postings.indices) == (documents > 0).sum()
    assert index.sparsity == pytest.approx((documents == 0).mean())
    for query in queries:
        np.testing.assert_allclose(index.score_all(query), documents @ query, rtol=0, atol=1e-6)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data.npy", "indices.npy", "indptr.npy", "manifest.json"]


def test_search_returns_positive_scores_in_order(
    checkpoint: RankerCheckpoint,
    corpus: pd.DataFrame,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(latent, "MAX_DEPTH", 20)
    ranking = search(TOPICS, corpus["docno"].tolist(), checkpoint, build(checkpoint, corpus, tmp_path))
    expected = dense(checkpoint, TOPICS["query"].tolist(), True) @ dense(checkpoint, corpus["premise"].tolist()).T
    for index, qid in enumerate(["1", "2"]):
        group = ranking[ranking["qid"] == qid]
        best = sorted((-round(float(score), 5), docno) for score, docno in zip(expected[index], corpus["docno"], strict=True))
        assert group["docno"].tolist() == [docno for score, docno in best[:20] if score < 0]
    assert set(ranking["qid"]) == {"1", "2"}
    assert "topic 3 (unheard): no document shares a latent term" in caplog.text


def test_search_reads_only_query_terms(checkpoint: RankerCheckpoint, corpus: pd.DataFrame, tmp_path: Path) -> None:
    index = build(checkpoint, corpus, tmp_path)
    used = int(np.bincount(dense(checkpoint, corpus["premise"].tolist()).nonzero()[1]).argmax())
    matrix = index._postings
    matrix.data = np.full(len(matrix.indices), np.nan, dtype=np.float32)
    columns = slice(matrix.indptr[used], matrix.indptr[used + 1])
    matrix.data[columns] = 1.0
    query = np.zeros(50, dtype=np.float32)
    query[used] = 2.0
    scores = index.score_all(query)
    assert np.isfinite(scores).all()
    assert scores.sum() == 2.0 * (columns.stop - columns.start) > 0


def test_build_resumes(
    checkpoint: RankerCheckpoint, corpus: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latent, "SHARD_SIZE", 16)
    build(checkpoint, corpus, tmp_path / "whole")
    calls, encode_shard = [], latent.encode_shard

    def stop_after_shard(checkpoint: RankerCheckpoint, device: torch.device, shard: tuple[int, list[str]]) -> bytes:
        start, _ = shard
        calls.append(start)
        if calls == [0, 16, 32]:
            raise KeyboardInterrupt
        return encode_shard(checkpoint, device, shard)

    monkeypatch.setattr(latent, "encode_shard", stop_after_shard)
    with pytest.raises(KeyboardInterrupt):
        build(checkpoint, corpus, tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "manifest.json").exists()
    build(checkpoint, corpus, tmp_path / "stopped")
    assert calls == [0, 16, 32, 32, 48]
    for file in (tmp_path / "whole").iterdir():
        assert (tmp_path / "stopped" / file.name).read_bytes() == file.read_bytes()
    build(checkpoint, corpus, tmp_path / "stopped")
    assert len(calls) == 5  # a finished index is only opened


def test_index_equals_the_reference(tmp_path: Path) -> None:
    _, _, expected = load("snrm")
    query, *documents = (expected[f"{text}_repr_f32"].numpy() for text in TEXTS)
    vectors = np.concatenate(documents)
    document, term = vectors.nonzero()
    order = np.lexsort((document, term))
    counts = np.bincount(term, minlength=24)
    assert counts.tolist() == expected["index_postings"].tolist()
    files = [tmp_path / name for name in CSR_FILES]
    merge_shards([(document[order], vectors[document, term][order])], [counts], np.float32, files)
    index = LatentIndex(files, len(vectors))
    for row, scores in zip(query, expected["index_scores"].numpy(), strict=True):
        np.testing.assert_allclose(index.score_all(row), scores, rtol=0, atol=1e-5)
        assert (index.score_all(row) > 0).tolist() == (scores > 0).tolist()
