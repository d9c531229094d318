"""Tests of the dense index against brute force and sentence-transformers."""

import numpy as np
import pandas as pd
import pytest
import torch

from aragorn.cache import Cache, Parts
from aragorn.engine import CPU
from aragorn.errors import OutputError
from aragorn.index import dense
from aragorn.index.vectors import VectorStore, encoding_listener, set_variable
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.inference.device import move_to_device
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.models.network import pad
from aragorn.models.rankers.sbert import SBERT
from aragorn.text.tokenisers import MaxLengths, WordPieceTokeniser
from aragorn_training.fitting.initialisation import read_encoder_config
from tests.conftest import BFLOAT16, build_tiny_ranker, limit_file_size

NAMES = [f"d{i:03}" for i in range(150)]
QUERIES = ["a b c", "h", "", "a a a b"]


@pytest.fixture(scope="module")
def checkpoint():
    torch.manual_seed(3)
    ranker, tokeniser = build_tiny_ranker("sbert", [])
    return RankerCheckpoint(ranker.eval(), tokeniser, "a test")


@pytest.fixture(scope="module")
def premises():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), rng.integers(0, 40))) for _ in NAMES]
    texts[7] = texts[3] = texts[90]  # ties
    return texts


def build_index(checkpoint, names, premises, directory):
    """Build the index of the premises with these names, with a store in a directory."""
    lookup = dict(zip(NAMES, premises, strict=True))
    texts = dense.NamedTexts(names, lambda names: [lookup[name] for name in names], "premise")
    store = VectorStore(Parts(directory), 16)
    return dense.load_or_build_dense_index(texts, checkpoint, CPU, store)


@pytest.fixture(scope="module")
def index(checkpoint, premises, small_shards, tmp_path_factory):
    return build_index(checkpoint, NAMES, premises, tmp_path_factory.mktemp("index"))


@pytest.mark.parametrize("depth", [1, 100, 1000])
def test_search_equals_brute_force(checkpoint, index, depth):
    queries = dense.encode_queries(QUERIES, checkpoint, CPU)
    vectors = index._vectors[index._rows].astype(np.float64)
    for query, (docnos, scores) in zip(queries, index.search(queries, depth), strict=True):
        products = (vectors * query).sum(axis=1).astype(np.float32)
        order = np.lexsort((NAMES, -products))[:depth]
        assert docnos == [NAMES[row] for row in order]
        np.testing.assert_array_equal(scores, products[order])
        # independent of the other documents
        np.testing.assert_array_equal(index.score(query, docnos[::-1]), scores[::-1])


@torch.no_grad()
def test_only_documents_have_half_precision(checkpoint, index, premises):
    [query] = dense.encode_queries(["a b c"], checkpoint, CPU)
    encode = checkpoint.tokeniser.encode_premise
    vectors = (checkpoint.network.encode(*pad([encode(text)]))[0].numpy() for text in premises)
    exact = [float(vector @ query) for vector in vectors]
    assert 0 < np.abs(index.score(query, NAMES) - exact).max() <= 1e-3
    checkpoint.network.set_encoder_precision(torch.float16)  # as after an index was built on a GPU
    np.testing.assert_array_equal(dense.encode_queries(["a b c"], checkpoint, CPU), [query])
    assert checkpoint.network.encoder.precision == torch.float16  # another thread may be encoding


@pytest.mark.parametrize("precision", ["float32", BFLOAT16])
def test_vectors_do_not_depend_on_order_company_and_batches(checkpoint, premises, precision):
    ids = [checkpoint.tokeniser.encode_premise(text) for text in premises]
    ranker = move_to_device(checkpoint.network, CPU, precision)
    expected = dense.encode_texts(ids, ranker, CPU, precision)
    order = np.random.default_rng(1).permutation(len(ids))
    for rows in (order, *([row] for row in range(0, len(ids), 7))):
        vectors = dense.encode_texts([ids[row] for row in rows], ranker, CPU, precision)
        np.testing.assert_array_equal(vectors, expected[rows])


def test_empty_index_has_no_results(checkpoint, premises, tmp_path):
    index = build_index(checkpoint, [], premises, tmp_path)
    [(docnos, scores)] = index.search(dense.encode_queries(["a"], checkpoint, CPU), 5)
    assert (docnos, scores.tolist()) == ([], [])


def test_conclusions_are_grouped_in_order(tmp_path):
    collection = pd.DataFrame({"docno": ["c", "a", "b"], "conclusion": ["Zoos", "Golf", "Zoos"]})
    groups = dense.group_by_conclusion(lambda: collection, Cache(tmp_path), "")
    assert list(groups.items()) == [("Golf", ["a"]), ("Zoos", ["b", "c"])]
    # stored
    assert dense.group_by_conclusion(lambda: collection[:0], Cache(tmp_path), "") == groups


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # raised by other libraries on loading
def test_vectors_equal_sentence_transformers():
    from sentence_transformers import SentenceTransformer

    pretrained = PretrainedEncoder("all-MiniLM-L6-v2")
    reference = SentenceTransformer(str(pretrained.folder), device="cpu", local_files_only=True)
    ranker = SBERT(SBERT.Config(**read_encoder_config(pretrained, 6))).eval()
    ranker.load_state_dict({**ranker.state_dict(), **pretrained.load_encoder_weights()})
    assert ranker.get_frozen_tensors() == set(ranker.state_dict())
    tokeniser = WordPieceTokeniser.load(
        pretrained.folder, MaxLengths(20, reference.max_seq_length - 2)
    )
    texts = ["", "zoos", "Zoos keep animals in cages, École 東京 😀.", "Guns save lives and " * 200]
    ids = [tokeniser.encode_premise(text) for text in texts]
    expected = reference.encode(texts, batch_size=2)
    with torch.no_grad():
        np.testing.assert_allclose(ranker.encode(*pad(ids)).numpy(), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(dense.encode_texts(ids, ranker, CPU), expected, rtol=0, atol=1e-3)


def test_encoding_stops_when_vectors_cannot_be_written(checkpoint, premises, tmp_path, monkeypatch):
    encoded = []
    encode_shard = dense.encode_shard

    def count_and_encode(*arguments):
        encoded.append(len(arguments[-1]))
        return encode_shard(*arguments)

    monkeypatch.setattr(dense, "SAMPLE_SIZE", 4)
    monkeypatch.setattr(dense, "SHARD_SIZE", 8)
    monkeypatch.setattr(dense, "encode_shard", count_and_encode)
    with set_variable(encoding_listener, lambda estimate: None):
        arguments = checkpoint, NAMES[20:40], premises, tmp_path
        with (
            limit_file_size(300),
            pytest.raises(OutputError, match=r"too large.*raise the limit of file sizes"),
        ):
            build_index(*arguments)
        assert encoded == [4, 8]  # the rest is not computed in vain
        assert len(list(tmp_path.iterdir())) == 1  # no temporary file
        assert len(build_index(*arguments).names) == 20
    assert encoded == [4, 8, 4, 8, 4]  # the first part is kept
