"""Exact nearest-neighbour search over memory-mapped float16 vectors.

vectors.npy  (texts, dimensions) float16; rows had unit length before rounding
"""

from __future__ import annotations

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

from submission.engine.base import HERE, Engine, computed
from submission.engine.shards import Part, kept_parts
from submission.inference.batching import Ids, batches_of_positions, pad
from submission.inference.device import in_batches, on_device, one_thread, positions
from submission.inference.ranker_checkpoint import Checkpoint
from submission.models.ranker import DenseRanker
from submission.retrieval.sparse_matrix import allocated
from submission.retrieval.top_k import top_k
from submission.storage.artifact_store import Kept, array_of, npy

VECTORS, NAMES, PARTS = "vectors.npy", "names.msgpack", "parts"
KEPT_TOGETHER = 1024  # texts per shard; an interruption repeats at most one shard
BLOCK = 16384  # vectors per matrix product
QUERIES = 64  # queries per matrix product
SLACK = 1e-4  # generous bound on the float32 error of a dot product


@dataclass(frozen=True)
class Texts:
    """Named texts and the way the network reads them."""

    names: Sequence[str]
    of: Callable[[list[str]], list[str]]  # loads the texts with these names, in order
    read_as: Literal["query", "premise"]


class DenseIndex:
    """Memory-mapped vectors of named texts."""

    def __init__(self, names: Sequence[str], file: Path) -> None:
        """Memory-map the vectors of the named texts."""
        self.names = names
        self._vectors = np.load(file, mmap_mode="r")
        self._numbers = {name: row for row, name in enumerate(names)}

    def scores(self, query: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Score texts (N,) by cosine similarity to a query vector; each score is independent of the others."""
        return self._exact(query, np.array([self._numbers[name] for name in names], dtype=int))

    def nearest(self, queries: np.ndarray, depth: int) -> Iterator[tuple[list[str], np.ndarray]]:
        """Yield the `depth` nearest texts and their cosine similarities for each query vector (Q, V).

        Ties go to the first text. Exact: a float32 shortlist over all texts is re-scored pair by pair.
        """
        for start in range(0, len(queries), QUERIES):
            block = queries[start : start + QUERIES]
            for query, products in zip(block, self._products(block), strict=True):
                threshold = np.partition(products, -depth)[-depth] - SLACK if len(products) > depth else -np.inf
                shortlist = np.flatnonzero(products >= threshold)
                scores = self._exact(query, shortlist)
                order = top_k(scores, depth)
                yield [self.names[row] for row in shortlist[order]], scores[order]

    def _products(self, queries: np.ndarray) -> np.ndarray:
        """Compute all dot products (queries, texts) float32."""
        products = np.empty((len(queries), len(self.names)), dtype=np.float32)
        transposed = torch.from_numpy(queries).t()
        for start in range(0, len(self.names), BLOCK):
            block = torch.from_numpy(self._vectors[start : start + BLOCK].astype(np.float32))
            products[:, start : start + BLOCK] = (block @ transposed).t().numpy()
        return products

    def _exact(self, query: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Compute dot products in float64 in a fixed order, rounded to float32 as in a run."""
        products: np.ndarray = self._vectors[numbers].astype(np.float64) * query.astype(np.float64)
        scores: np.ndarray = products.sum(axis=1).astype(np.float32).astype(np.float64)
        return scores


def dense_index(texts: Texts, checkpoint: Checkpoint, device: torch.device, kept: Kept, engine: Engine = HERE) -> DenseIndex:
    """Load the vectors of named texts from the cache, or build them, resuming from completed shards.

    Args:
        texts: loaded only if the index is built.
        checkpoint: of a DenseRanker.
        device: device for each shard.
        kept: artifact store; its key must cover all other arguments.
        engine: computes the shards.

    Raises:
        OutputError: the cache cannot be written.
    """
    [file] = kept.make([VECTORS], partial(_build, texts, checkpoint, device, kept, engine))
    shutil.rmtree(kept.directory / PARTS, ignore_errors=True)
    return DenseIndex(texts.names, file)


def premises_of(docnos: Sequence[str], texts: Callable[[list[str]], pd.DataFrame]) -> Texts:
    """Return documents' premises as named texts; `texts` loads `docno premise` in order."""
    return Texts(docnos, lambda names: texts(names)["premise"].tolist(), "premise")


def titles_of(conclusions: Sequence[str]) -> Texts:
    """Return conclusions as named texts, each its own name, read as queries."""
    return Texts(conclusions, list, "query")


def conclusions_of(conclusions: Callable[[], pd.DataFrame], kept: Kept) -> dict[str, list[str]]:
    """Return a collection's distinct conclusions, ascending, with their docnos; cached."""

    def build() -> bytes:
        collection = conclusions()
        docnos: dict[str, list[str]] = {}
        for conclusion, docno in sorted(zip(collection["conclusion"], collection["docno"], strict=True)):
            docnos.setdefault(conclusion, []).append(docno)
        return msgspec.msgpack.encode(docnos)

    return msgspec.msgpack.decode(kept.content(NAMES, build), type=dict[str, list[str]])


def represented(titles: Sequence[str], checkpoint: Checkpoint, device: torch.device, engine: Engine = HERE) -> np.ndarray:
    """Encode queries (N, V) float32, each independently of the others."""
    return computed(engine, partial(_encode_queries, checkpoint, device), titles, device)


@torch.inference_mode()
def _encode_queries(checkpoint: Checkpoint, device: torch.device, queries: Sequence[str]) -> np.ndarray:
    ranker, token_ids = _dense(checkpoint).to(device), checkpoint.tokeniser.query
    ranker.use_precision(None)  # building an index may have lowered it
    with one_thread():
        vectors = [ranker.represent(*(tensor.to(device) for tensor in pad([token_ids(query)]))) for query in queries]
    return np.asarray(torch.cat(vectors).cpu(), dtype=np.float32)


def encode_shard(checkpoint: Checkpoint, read_as: Literal["query", "premise"], device: torch.device, texts: list[str]) -> bytes:
    """Encode a shard (N, V) float16 as the bytes of a .npy file."""
    ranker, token_ids = on_device(_dense(checkpoint), device, checkpoint.precision), getattr(checkpoint.tokeniser, read_as)
    return npy(encoded([token_ids(text) for text in texts], ranker, device, checkpoint.precision))


def _build(texts: Texts, checkpoint: Checkpoint, device: torch.device, kept: Kept, engine: Engine, file: Path) -> None:
    """Encode all shards, then concatenate them."""
    names, encode = texts.names, partial(encode_shard, checkpoint, texts.read_as, device)
    starts = range(0, len(names), KEPT_TOGETHER)

    def make_shard(start: int) -> Part[list[str]]:
        shard = list(names[start : start + KEPT_TOGETHER])
        return Part(f"{start:09}.npy", len(shard), partial(texts.of, shard), travels=True)

    name, shards = checkpoint.ranker.name(), [make_shard(start) for start in starts]
    content = kept_parts(encode, shards, Kept(kept.directory / PARTS, {}), engine, device, name, "texts")
    first = array_of(content(0) if shards else computed(engine, encode, [""], device))
    array = allocated(file, np.float16, (len(names), first.shape[1]))
    for index, start in enumerate(starts):  # one at a time: together they may exceed memory
        array[start : start + KEPT_TOGETHER] = array_of(content(index))
    array.flush()


def encoded(
    texts: Sequence[Ids], ranker: DenseRanker, device: torch.device, precision: torch.dtype | None = None
) -> np.ndarray:
    """Encode texts given as ids (N, V) float16, longest first, so that GPU memory is allocated once."""
    batches = batches_of_positions([len(text) for text in texts], positions(device, precision))

    def compute(rows: np.ndarray) -> Tensor:
        return ranker.represent(*(tensor.to(device) for tensor in pad([texts[row] for row in rows]))).cpu()

    vectors = np.asarray(torch.cat(in_batches(compute, batches, device, torch.cat)), dtype=np.float32)
    in_order = np.empty(vectors.shape, dtype=np.float16)
    in_order[np.concatenate(batches)] = vectors
    return in_order


def _dense(checkpoint: Checkpoint) -> DenseRanker:
    if not isinstance(checkpoint.ranker, DenseRanker):
        raise TypeError(f"{checkpoint.ranker.name()} is not a dense ranker")
    return checkpoint.ranker
