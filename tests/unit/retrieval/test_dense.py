"""The dense index compared with brute force, and its vectors with those of sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission.inference.pretrained import PretrainedEncoder
from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.models.padding import TokenIds, pad
from submission.models.rankers.sbert import SBERT
from submission.retrieval import dense
from submission.retrieval.dense import (
    SHARD_SIZE,
    DenseIndex,
    encode_queries,
    encode_texts,
    group_by_conclusion,
    load_or_build_dense_index,
    make_conclusion_texts,
    make_premise_texts,
)
from submission.storage.artifact_store import ArtifactStore
from submission.text.tokenisers import MaxLengths, WordPieceTokeniser
from tests.conftest import TINY_BERT, build_text_lookup, build_tiny_tokenizer, read_files
from training.fitting.initialisation import read_encoder_config

CPU = torch.device("cpu")
NAMES = [f"d{i:03}" for i in range(150)]


@pytest.fixture
def checkpoint() -> RankerCheckpoint:
    tokeniser = WordPieceTokeniser(build_tiny_tokenizer(), MaxLengths(20, 30))
    torch.manual_seed(3)
    bert = {**TINY_BERT, "max_position_embeddings": 32, "vocab_size": 60}
    ranker = SBERT(SBERT.Config(bert=bert, cls=2, sep=3)).eval()
    with torch.no_grad():
        ranker.encoder.bert.embeddings.word_embeddings.weight.mul_(40)  # else all texts have the same vector
    return RankerCheckpoint(ranker, tokeniser, "a test")


@pytest.fixture
def corpus() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    premises = [" ".join(rng.choice(list("abcdefgh"), rng.integers(0, 40))) for _ in NAMES]
    premises[7] = premises[3] = premises[90]  # ties
    return pd.DataFrame({"docno": NAMES, "premise": premises})


def build(corpus: pd.DataFrame, checkpoint: RankerCheckpoint, directory: Path) -> DenseIndex:
    premises = make_premise_texts(corpus["docno"].tolist(), build_text_lookup(corpus))
    return load_or_build_dense_index(premises, checkpoint, CPU, ArtifactStore(directory, {}))


@torch.no_grad()
def single(checkpoint: RankerCheckpoint, text: str) -> np.ndarray:
    ranker = checkpoint.network
    assert isinstance(ranker, SBERT)
    return ranker.encode(*pad([checkpoint.tokeniser.encode_premise(text)]))[0].numpy()


@pytest.mark.parametrize("depth", [1, 5, 100, 150, 1000])
def test_search_equals_brute_force(
    checkpoint: RankerCheckpoint, corpus: pd.DataFrame, tmp_path: Path, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "VECTOR_BLOCK", 64)
    monkeypatch.setattr(dense, "QUERY_BLOCK", 2)
    index, queries = build(corpus, checkpoint, tmp_path), encode_queries(["a b c", "h", "", "a a a b"], checkpoint, CPU)
    vectors = np.load(tmp_path / dense.VECTORS_FILE).astype(np.float64)
    rankings = list(index.search(queries, depth))
    assert len(rankings) == 4
    for query, (docnos, scores) in zip(queries, rankings, strict=True):
        products = (vectors * query).sum(axis=1)
        order = np.lexsort((NAMES, -products.astype(np.float32)))[:depth]
        assert docnos == [NAMES[row] for row in order]
        np.testing.assert_array_equal(scores, products.astype(np.float32)[order])
        np.testing.assert_array_equal(index.score(query, docnos[::-1]), scores[::-1])  # whatever other texts are scored


def test_ties_keep_document_order(checkpoint: RankerCheckpoint, corpus: pd.DataFrame, tmp_path: Path) -> None:
    query = encode_queries([corpus["premise"][3]], checkpoint, CPU)
    [(docnos, scores)] = build(corpus, checkpoint, tmp_path).search(query, 2)
    assert docnos == ["d003", "d007"]
    assert scores[0] == scores[1] == pytest.approx(1, abs=1e-3)


def test_half_precision_scores_are_close(checkpoint: RankerCheckpoint, corpus: pd.DataFrame, tmp_path: Path) -> None:
    index, query = build(corpus, checkpoint, tmp_path), encode_queries(["a b c"], checkpoint, CPU)[0]
    exact = np.array([single(checkpoint, text) @ query for text in corpus["premise"]])
    moved = np.abs(index.score(query, NAMES) - exact)
    assert 0 < moved.max() <= 1e-3


def test_index_does_not_depend_on_shards_and_resumes(
    checkpoint: RankerCheckpoint, corpus: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(corpus, checkpoint, tmp_path / "one part")
    monkeypatch.setattr(dense, "SHARD_SIZE", 40)
    index = build(corpus, checkpoint, tmp_path / "whole")
    once = build(corpus, checkpoint, tmp_path / "one part")
    np.testing.assert_allclose(once._vectors, index._vectors, rtol=0, atol=1e-3)
    calls, encode = [], encode_texts

    def stop_after_shard(texts: list[TokenIds], *args: object) -> np.ndarray:
        calls.append(len(texts))
        if calls == [40, 40, 40]:
            raise KeyboardInterrupt
        return encode(texts, *args)

    monkeypatch.setattr(dense, "encode_texts", stop_after_shard)
    with pytest.raises(KeyboardInterrupt):
        build(corpus, checkpoint, tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "manifest.json").exists()
    build(corpus, checkpoint, tmp_path / "stopped")
    assert calls == [40, 40, 40, 40, 30]
    assert read_files(tmp_path / "stopped") == read_files(tmp_path / "whole")
    build(corpus, checkpoint, tmp_path / "stopped")
    assert len(calls) == 5  # a finished index is only opened


def test_damaged_index_is_rebuilt(
    checkpoint: RankerCheckpoint, corpus: pd.DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build(corpus, checkpoint, tmp_path)
    good = read_files(tmp_path)
    data = bytearray(good["vectors.npy"])
    data[-5] ^= 1
    (tmp_path / "vectors.npy").write_bytes(bytes(data))
    build(corpus, checkpoint, tmp_path)
    assert read_files(tmp_path) == good
    assert "checksum mismatch" in caplog.text


def test_queries_are_encoded_in_float32(checkpoint: RankerCheckpoint) -> None:
    expected = encode_queries(["a b c"], checkpoint, CPU)
    checkpoint.network.set_encoder_precision(torch.bfloat16)  # as after an index was built on a GPU, in half precision
    np.testing.assert_array_equal(encode_queries(["a b c"], checkpoint, CPU), expected)


def test_no_texts(checkpoint: RankerCheckpoint, tmp_path: Path) -> None:
    index = load_or_build_dense_index(make_conclusion_texts([]), checkpoint, CPU, ArtifactStore(tmp_path, {}))
    query = encode_queries(["a"], checkpoint, CPU)
    assert [(docnos, scores.tolist()) for docnos, scores in index.search(query, 5)] == [([], [])]


def test_conclusion_index(tmp_path: Path) -> None:
    collection = pd.DataFrame({"docno": ["c", "a", "b"], "conclusion": ["Zoos", "Golf", "Zoos"]})
    store = ArtifactStore(tmp_path, {})
    assert group_by_conclusion(lambda: collection, store) == {"Golf": ["a"], "Zoos": ["b", "c"]}
    assert list(group_by_conclusion(lambda: collection[:0], ArtifactStore(tmp_path, {}))) == ["Golf", "Zoos"]  # stored


def test_batches_are_at_most_the_token_limit() -> None:
    lengths = [0, 5, 3, 900, 7, 7, 2]
    batches = dense.batch_by_tokens(lengths, 14)
    assert [rows.tolist() for rows in batches] == [[3], [4, 5], [1, 2], [6, 0]]
    assert SHARD_SIZE >= 512


@pytest.mark.filterwarnings("ignore")  # raised by other libraries on loading
def test_vectors_equal_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    reference = SentenceTransformer(str(pretrained.folder), device="cpu", local_files_only=True)
    ranker = SBERT(SBERT.Config(**read_encoder_config(pretrained, 6))).eval()
    ranker.load_state_dict({**ranker.state_dict(), **pretrained.load_encoder_weights()})
    assert ranker.get_omitted_tensors() == set(ranker.state_dict())
    tokeniser = WordPieceTokeniser.load(pretrained.folder, MaxLengths(20, reference.max_seq_length - 2))
    texts = ["", "zoos", "Zoos keep animals in cages, École 東京 😀.", "Guns save lives and " * 200]
    with torch.no_grad():
        ours = ranker.encode(*pad([tokeniser.encode_premise(text) for text in texts])).numpy()
    theirs = reference.encode(texts, batch_size=2)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    half = encode_texts([tokeniser.encode_premise(text) for text in texts], ranker, CPU)
    np.testing.assert_allclose(half, theirs, rtol=0, atol=1e-3)
