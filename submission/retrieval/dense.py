"""Find the exact nearest neighbours of queries among memory-mapped float16 vectors.

vectors.npy  (texts, dimensions) float16: unit vectors, rounded
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.engine.base import LOCAL_ENGINE, Engine, run_task
from submission.engine.shards import Shard, compute_shards
from submission.inference.device import batch_by_tokens, get_max_batch_tokens, map_batches, move_to_device, use_single_thread
from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.models.padding import TokenIds, pad
from submission.models.ranker import DenseRanker
from submission.retrieval.sparse_matrix import allocate_npy, top_k
from submission.storage.artifact_store import ArtifactStore, decode_npy, encode_npy

VECTORS_FILE, CONCLUSIONS_FILE, SHARDS_DIR = "vectors.npy", "names.msgpack", "parts"
SHARD_SIZE = 1024  # texts per shard
VECTOR_BLOCK = 16384  # vectors per matrix product
QUERY_BLOCK = 64  # queries per matrix product
ROUNDING_MARGIN = 1e-4  # upper bound on the float32 rounding error of a dot product


@dataclass(frozen=True)
class NamedTexts:
    """Texts to index, identified by name and loaded on demand."""

    names: Sequence[str]
    load: Callable[[list[str]], list[str]]  # returns the texts with these names, in this order
    input_type: Literal["query", "premise"]  # which input of the network the texts are


class DenseIndex:
    """Index for exact nearest-neighbour search over memory-mapped vectors of named texts."""

    def __init__(self, names: Sequence[str], file: Path) -> None:
        """Memory-map a vector file written by `_build_vectors`, whose rows are in the order of `names`."""
        self.names = names
        self._vectors = np.load(file, mmap_mode="r")
        self._rows = {name: row for row, name in enumerate(names)}

    def score(self, query: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Compute the cosine similarities (N,) of named texts to a query vector (V,); no score depends on the other texts."""
        return self._score_exactly(query, np.array([self._rows[name] for name in names], dtype=int))

    def search(self, queries: np.ndarray, depth: int) -> Iterator[tuple[list[str], np.ndarray]]:
        """Yield, for each of the query vectors (Q, V), names and cosine similarities of the `depth` nearest texts, best first.

        Ties go to the first text. Texts are shortlisted by float32 products, and the shortlist is scored exactly.
        """
        for start in range(0, len(queries), QUERY_BLOCK):
            block = queries[start : start + QUERY_BLOCK]
            for query, products in zip(block, self._compute_dot_products(block), strict=True):
                threshold = np.partition(products, -depth)[-depth] - ROUNDING_MARGIN if len(products) > depth else -np.inf
                shortlist = np.flatnonzero(products >= threshold)
                scores = self._score_exactly(query, shortlist)
                order = top_k(scores, depth)
                yield [self.names[row] for row in shortlist[order]], scores[order]

    def _compute_dot_products(self, queries: np.ndarray) -> np.ndarray:
        """Compute the float32 dot products (Q, N) of queries with all texts."""
        products = np.empty((len(queries), len(self.names)), dtype=np.float32)
        query_columns = torch.from_numpy(queries).t()
        for start in range(0, len(self.names), VECTOR_BLOCK):
            block = torch.from_numpy(self._vectors[start : start + VECTOR_BLOCK].astype(np.float32))
            products[:, start : start + VECTOR_BLOCK] = (block @ query_columns).t().numpy()
        return products

    def _score_exactly(self, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Compute dot products with `rows` in float64 in a fixed order, rounded to float32, the precision of a run."""
        products: np.ndarray = self._vectors[rows].astype(np.float64) * query.astype(np.float64)
        scores: np.ndarray = products.sum(axis=1).astype(np.float32).astype(np.float64)
        return scores


def load_or_build_dense_index(
    texts: NamedTexts, checkpoint: RankerCheckpoint, device: torch.device, store: ArtifactStore, engine: Engine = LOCAL_ENGINE
) -> DenseIndex:
    """Load the vectors of named texts from the cache, or build them, resuming from completed shards.

    The checkpoint must be of a DenseRanker. `store`'s cache key must depend on the texts, the checkpoint and the device.
    """
    [file] = store.build_files([VECTORS_FILE], partial(_build_vectors, texts, checkpoint, device, store, engine))
    shutil.rmtree(store.directory / SHARDS_DIR, ignore_errors=True)
    return DenseIndex(texts.names, file)


def make_premise_texts(docnos: Sequence[str], load_premises: Callable[[list[str]], pd.DataFrame]) -> NamedTexts:
    """Return premises as texts named by docno; `load_premises` loads `docno premise` by docno, in order."""
    return NamedTexts(docnos, lambda names: load_premises(names)["premise"].tolist(), "premise")


def make_conclusion_texts(conclusions: Sequence[str]) -> NamedTexts:
    """Return conclusions as texts named by the conclusions themselves; the network reads them as queries."""
    return NamedTexts(conclusions, list, "query")


def group_by_conclusion(load_conclusions: Callable[[], pd.DataFrame], store: ArtifactStore) -> dict[str, list[str]]:
    """Map each distinct conclusion of the collection `docno conclusion` that `load_conclusions` returns to its docnos.

    Conclusions and docnos are ascending. The result is cached in `store`, whose cache key must depend on the collection.
    """

    def build() -> bytes:
        collection = load_conclusions()
        docnos: dict[str, list[str]] = {}
        for conclusion, docno in sorted(zip(collection["conclusion"], collection["docno"], strict=True)):
            docnos.setdefault(conclusion, []).append(docno)
        return msgspec.msgpack.encode(docnos)

    return msgspec.msgpack.decode(store.load_or_build(CONCLUSIONS_FILE, build), type=dict[str, list[str]])


def encode_queries(
    queries: Sequence[str], checkpoint: RankerCheckpoint, device: torch.device, engine: Engine = LOCAL_ENGINE
) -> np.ndarray:
    """Compute the vectors (N, V) float32 of queries, one at a time, so that no vector depends on the other queries."""
    return run_task(engine, partial(_encode_queries, checkpoint, device), queries, device)


@torch.inference_mode()
def _encode_queries(checkpoint: RankerCheckpoint, device: torch.device, queries: Sequence[str]) -> np.ndarray:
    ranker = _get_dense_ranker(checkpoint).to(device)
    ranker.set_encoder_precision(None)  # building an index may have lowered the precision
    with use_single_thread():
        inputs = [pad([checkpoint.tokeniser.encode_query(query)]) for query in queries]
        vectors = [ranker.encode(ids.to(device), mask.to(device)) for ids, mask in inputs]
    return np.asarray(torch.cat(vectors).cpu(), dtype=np.float32)


def encode_shard(
    checkpoint: RankerCheckpoint, input_type: Literal["query", "premise"], device: torch.device, texts: list[str]
) -> bytes:
    """Encode texts; return their vectors (N, V) float16 as the bytes of a .npy file."""
    ranker = move_to_device(_get_dense_ranker(checkpoint), device, checkpoint.precision)
    encode = checkpoint.tokeniser.encode_query if input_type == "query" else checkpoint.tokeniser.encode_premise
    return encode_npy(encode_texts([encode(text) for text in texts], ranker, device, checkpoint.precision))


def _build_vectors(
    texts: NamedTexts, checkpoint: RankerCheckpoint, device: torch.device, store: ArtifactStore, engine: Engine, file: Path
) -> None:
    """Encode all shards, then write their concatenated vectors to `file`."""
    names, encode = texts.names, partial(encode_shard, checkpoint, texts.input_type, device)
    starts, shards, shard_store = range(0, len(names), SHARD_SIZE), [], ArtifactStore(store.directory / SHARDS_DIR, {})
    for start in starts:
        shard = list(names[start : start + SHARD_SIZE])
        shards.append(Shard(f"{start:09}.npy", len(shard), partial(texts.load, shard), can_load_remotely=True))
    read_shard = compute_shards(encode, shards, shard_store, engine, device, checkpoint.network.get_name(), "texts")
    first_shard = decode_npy(read_shard(0) if shards else run_task(engine, encode, [""], device))
    array = allocate_npy(file, np.float16, (len(names), first_shard.shape[1]))
    for index, start in enumerate(starts):  # one at a time: together they may exceed memory
        array[start : start + SHARD_SIZE] = decode_npy(read_shard(index))
    array.flush()


def encode_texts(
    texts: Sequence[TokenIds], ranker: DenseRanker, device: torch.device, precision: torch.dtype | None = None
) -> np.ndarray:
    """Compute the vectors (N, V) float16 of tokenised texts; row i is the vector of `texts[i]`.

    The longest texts are encoded first, so that GPU memory is allocated once.
    """
    batches = batch_by_tokens([len(text) for text in texts], get_max_batch_tokens(device, precision))

    def compute(rows: np.ndarray) -> Tensor:
        return ranker.encode(*(tensor.to(device) for tensor in pad([texts[row] for row in rows]))).cpu()

    vectors = np.asarray(torch.cat(map_batches(compute, batches, device, torch.cat)), dtype=np.float32)
    ordered_vectors = np.empty(vectors.shape, dtype=np.float16)
    ordered_vectors[np.concatenate(batches)] = vectors
    return ordered_vectors


def _get_dense_ranker(checkpoint: RankerCheckpoint) -> DenseRanker:
    if not isinstance(checkpoint.network, DenseRanker):
        raise TypeError(f"{checkpoint.network.get_name()} is not a dense ranker")
    return checkpoint.network
