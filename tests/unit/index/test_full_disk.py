"""Tests that a full disk (a limit of file sizes) ends writing, and finished parts remain."""

import resource
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array

from aragorn.cache import Cache, Parts
from aragorn.engine.base import CPU
from aragorn.errors import OutputError
from aragorn.index import dense
from aragorn.index.inverted import write_index
from aragorn.index.vectors import VectorStore
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.models.rankers.sbert import SBERT
from aragorn.text.tokenisers import MaxLengths, WordPieceTokeniser
from tests.conftest import TINY_ENCODER, build_text_lookup, build_tiny_tokenizer

FULL = r"cannot be written \(File too large\); free disk space"
N_TERMS = 1000
DIMENSION = 16
NAMES = [f"d{index}" for index in range(20)]
SHARD_SIZES = (4, 8, 8)  # of 20 texts: a sample, then shards


@contextmanager
def limit_file_size(limit):
    """Let writing beyond the first `limit` bytes of any file fail."""
    _, hard_limit = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def build_index(directory):
    """Write an index whose largest file is cf.npy: all terms occur in one document."""
    terms = [f"{index:x}" for index in range(N_TERMS)]
    write_index(directory, [csr_array(np.ones((1, N_TERMS), np.int32))], terms)


def test_no_file_of_an_index_is_truncated(tmp_path):
    cache = Cache(tmp_path)
    finished = cache.directory("index", "key", build_index)
    sizes = {file.name: file.stat().st_size for file in finished.iterdir()}
    largest = max(sizes.values())
    assert sizes["cf.npy"] == largest == 8 * N_TERMS + 128
    for missing_bytes in (1, 100, largest // 2, largest - 64):
        with limit_file_size(largest - missing_bytes), pytest.raises(OutputError, match=FULL):
            cache.directory("index", f"{missing_bytes} missing", build_index)
        assert list(tmp_path.iterdir()) == [finished]
    assert np.load(finished / "cf.npy").tolist() == [1] * N_TERMS


@pytest.fixture
def checkpoint():
    torch.manual_seed(0)
    ranker = SBERT(SBERT.Config(bert=TINY_ENCODER, cls=2, sep=3)).eval()
    tokeniser = WordPieceTokeniser(build_tiny_tokenizer(), MaxLengths(20, 30))
    return RankerCheckpoint(ranker, tokeniser, "a test")


def test_encoding_stops_when_vectors_cannot_be_written(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(dense, "SAMPLE_SIZE", SHARD_SIZES[0])
    monkeypatch.setattr(dense, "SHARD_SIZE", SHARD_SIZES[1])
    encoded = []
    encode_shard = dense.encode_shard

    def count_and_encode(*arguments):
        encoded.append(len(arguments[-1]))
        return encode_shard(*arguments)

    monkeypatch.setattr(dense, "encode_shard", count_and_encode)
    premises = ["a b c " * index for index in range(len(NAMES))]
    lookup = build_text_lookup(pd.DataFrame({"docno": NAMES, "premise": premises}))
    texts = dense.make_premise_texts(NAMES, lookup)
    parts = Parts(tmp_path / "vectors")

    def load_index():
        with dense.set_variable(dense.encoding_listener, lambda estimate: None):
            store = VectorStore(parts, DIMENSION)
            return dense.load_or_build_dense_index(texts, checkpoint, CPU, store)

    with limit_file_size(300), pytest.raises(OutputError, match=FULL):
        load_index()
    assert encoded == [4, 8]
    assert len(parts.get_names()) == 1
    assert len(list(parts.path.iterdir())) == 1  # no temporary file
    index = load_index()
    assert encoded == [4, 8, 4, 8, 4]
    assert len(index.names) == len(NAMES)
