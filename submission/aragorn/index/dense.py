"""Encode texts once each, and find the exact nearest neighbours of queries among their vectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from aragorn.cache import Cache, decode_npy, encode_npy
from aragorn.engine import FLOAT32, LOCAL_ENGINE, Engine
from aragorn.errors import OutputError
from aragorn.index.inverted import select_top_k
from aragorn.index.vectors import (
    KEY_SIZE,
    EncodingEstimate,
    VectorStore,
    encoding_listener,
    hash_text,
    set_variable,
)
from aragorn.progress import track_weighted

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from aragorn.inference.checkpoint import RankerCheckpoint
    from aragorn.models.network import DenseRanker, TokenIds

# What imports torch is imported by the functions that compute with it.

VERSION = 1  # of vectors and cosine similarities
COMPUTES_WITH = ("aragorn.inference.checkpoint", "aragorn.index.inverted", "numpy", "torch")

SHARD_SIZE = 1024  # texts per shard
SAMPLE_SIZE = 16  # texts timed to estimate the ETA
CHARACTERS_PER_TOKEN = 5
READ_BLOCK = 16384  # texts read at a time
LENGTH_BLOCK = 16  # BERT's inputs are padded to a multiple of this length
SPECIAL_TOKENS = 2  # [CLS] and [SEP], which count towards it
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
    """Index for exact nearest-neighbour search over the vectors of named texts."""

    def __init__(self, names: Sequence[str], vectors: np.ndarray, rows: np.ndarray) -> None:
        """Create the index of texts whose vectors are `rows` (N,) of `vectors` (R, V) float16."""
        self.names = names
        self._vectors = vectors
        self._rows = rows
        self._positions = {name: position for position, name in enumerate(names)}

    def score(self, query: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Compute the cosine similarities (N,) of named texts to a query vector (V,)."""
        return self._score_exactly(
            query, np.array([self._positions[name] for name in names], dtype=int)
        )

    def search(self, queries: np.ndarray, depth: int) -> Iterator[tuple[list[str], np.ndarray]]:
        """Yield names and cosine similarities of the `depth` nearest texts of each query (Q, V).

        Ties go to the first text. A shortlist by float32 products is scored exactly.
        """
        for start in range(0, len(queries), QUERY_BLOCK):
            block = queries[start : start + QUERY_BLOCK]
            for query, products in zip(block, self._compute_dot_products(block), strict=True):
                threshold = (
                    np.partition(products, -depth)[-depth] - ROUNDING_MARGIN
                    if len(products) > depth
                    else -np.inf
                )
                shortlist = np.flatnonzero(products >= threshold)
                scores = self._score_exactly(query, shortlist)
                order = select_top_k(scores, depth)
                yield [self.names[position] for position in shortlist[order]], scores[order]

    def _compute_dot_products(self, queries: np.ndarray) -> np.ndarray:
        import torch

        products = np.empty((len(queries), len(self.names)), dtype=np.float32)
        query_columns = torch.from_numpy(queries).t()
        for start in range(0, len(self.names), VECTOR_BLOCK):
            block = torch.from_numpy(
                self._vectors[self._rows[start : start + VECTOR_BLOCK]].astype(np.float32)
            )
            products[:, start : start + VECTOR_BLOCK] = (block @ query_columns).t().numpy()
        return products

    def _score_exactly(self, query: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Compute float64 dot products in a fixed order, rounded to float32 as in runs."""
        products: np.ndarray = self._vectors[self._rows[positions]].astype(
            np.float64
        ) * query.astype(np.float64)
        scores: np.ndarray = products.sum(axis=1).astype(np.float32).astype(np.float64)
        return scores


def load_or_build_dense_index(
    texts: NamedTexts,
    checkpoint: RankerCheckpoint,
    device: str,
    store: VectorStore,
    engine: Engine = LOCAL_ENGINE,
) -> DenseIndex:
    """Index named texts; encode those that have no vector in `store`, and add their vectors to it.

    The checkpoint is of a DenseRanker; all vectors of `store` are of it and of this device type.
    Raises OutputError if vectors cannot be written or read back.
    """
    keys, lengths = _read_keys_and_lengths(texts)
    rows = store.find(keys)
    if (rows < 0).any():
        with store.encoding_lock:  # so that no text is encoded by two threads
            _encode_missing(texts, keys, lengths, checkpoint, device, store, engine)
        rows = store.find(keys)
        if (rows < 0).any():
            raise OutputError(
                f"{store.parts.path}: vectors that were just written are damaged; check the disk "
                "and delete the folder"
            )
    return DenseIndex(texts.names, store.vectors, rows)


def _read_keys_and_lengths(texts: NamedTexts) -> tuple[list[bytes], np.ndarray]:
    keys: list[bytes] = []
    lengths: list[int] = []
    for start in range(0, len(texts.names), READ_BLOCK):
        block = texts.load(list(texts.names[start : start + READ_BLOCK]))
        keys += [hash_text(texts.input_type, text) for text in block]
        lengths += map(len, block)
    return keys, np.array(lengths, dtype=int)


def _encode_missing(
    texts: NamedTexts,
    keys: Sequence[bytes],
    lengths: np.ndarray,
    checkpoint: RankerCheckpoint,
    device: str,
    store: VectorStore,
    engine: Engine,
) -> None:
    """Encode texts without a vector in shards, longest first; a listener's first is a sample."""
    _, first_positions = np.unique(np.frombuffer(b"".join(keys), f"S{KEY_SIZE}"), return_index=True)
    positions = first_positions[store.find(keys)[first_positions] < 0]
    if not len(positions):  # another thread has encoded them
        return
    positions = positions[np.argsort(-lengths[positions], kind="stable")]
    listener = encoding_listener.get()
    first_size = SHARD_SIZE if listener is None else SAMPLE_SIZE
    bounds = pairwise([0, *range(first_size, len(positions), SHARD_SIZE), len(positions)])
    shards = [positions[start:end] for start, end in bounds]
    inputs = (
        (index, texts.load([texts.names[position] for position in shard]))
        for index, shard in enumerate(shards)
    )
    encode = partial(encode_shard, checkpoint, texts.input_type, device)
    name = checkpoint.network.get_name()
    start_time = time.monotonic()
    results = engine.map(encode, inputs, device)
    sized_results = ((result, len(shards[result[0]])) for result in results)
    for index, vectors in track_weighted(sized_results, len(positions), name, "texts"):
        store.append([keys[position] for position in shards[index]], decode_npy(vectors))
        if listener is not None and index == 0 and len(shards) > 1:
            max_tokens = getattr(checkpoint.tokeniser.lengths, texts.input_type)
            costs = np.minimum(lengths[positions], CHARACTERS_PER_TOKEN * max_tokens)
            seconds = (time.monotonic() - start_time) * costs.sum() / costs[:SAMPLE_SIZE].sum()
            listener(EncodingEstimate(name, len(positions), start_time + seconds))


def group_by_conclusion(
    load_conclusions: Callable[[], pd.DataFrame], cache: Cache, key: str
) -> dict[str, list[str]]:
    """Map each distinct conclusion to its docnos, both ascending; the result is cached."""

    def build() -> bytes:
        collection = load_conclusions()
        docnos: dict[str, list[str]] = {}
        for conclusion, docno in sorted(
            zip(collection["conclusion"], collection["docno"], strict=True)
        ):
            docnos.setdefault(conclusion, []).append(docno)
        return msgspec.msgpack.encode(docnos)

    content = cache.get_or_build("conclusion-groups", key, build)
    return msgspec.msgpack.decode(content, type=dict[str, list[str]])


def encode_queries(queries: Sequence[str], checkpoint: RankerCheckpoint, device: str) -> np.ndarray:
    """Compute the vectors (N, V) float32 of queries, independently of each other."""
    import torch

    from aragorn.inference.device import use_single_thread
    from aragorn.models.network import is_full_precision, pad

    ranker = get_dense_ranker(checkpoint).to(device)
    # other threads may be encoding in half precision
    with torch.inference_mode(), use_single_thread(), set_variable(is_full_precision, True):
        inputs = [pad([checkpoint.tokeniser.encode_query(query)]) for query in queries]
        vectors = [ranker.encode(ids.to(device), mask.to(device)) for ids, mask in inputs]
        return np.asarray(torch.cat(vectors).cpu(), dtype=np.float32)


def encode_shard(
    checkpoint: RankerCheckpoint,
    input_type: Literal["query", "premise"],
    device: str,
    texts: list[str],
) -> bytes:
    """Encode texts; return their vectors (N, V) float16 as the bytes of a .npy file."""
    from aragorn.inference.device import move_to_device

    ranker = move_to_device(get_dense_ranker(checkpoint), device, checkpoint.precision)
    encode = getattr(checkpoint.tokeniser, f"encode_{input_type}")
    return encode_npy(
        encode_texts([encode(text) for text in texts], ranker, device, checkpoint.precision)
    )


def encode_texts(
    texts: Sequence[TokenIds], ranker: DenseRanker, device: str, precision: str = FLOAT32
) -> np.ndarray:
    """Compute the vectors (N, V) float16 of tokenised texts, independently of each other."""
    import torch

    from aragorn.inference.device import batch_by_shape, get_max_batch_tokens, map_batches
    from aragorn.models.network import pad

    # small, because the last batch of each length is filled
    max_tokens = get_max_batch_tokens(device, precision) // 2
    batches = batch_by_shape([len(text) for text in texts], _round_up_length, max_tokens)

    def compute(rows: np.ndarray) -> Tensor:
        inputs = pad([texts[row] for row in rows], _round_up_length(len(texts[rows[0]])))
        return ranker.encode(*(tensor.to(device) for tensor in inputs)).cpu()

    vectors = np.asarray(
        torch.cat(map_batches(compute, batches, device, torch.cat)), dtype=np.float32
    )
    ordered_vectors = np.empty((len(texts), vectors.shape[1]), dtype=np.float16)
    ordered_vectors[np.concatenate(batches)] = vectors
    return ordered_vectors


def _round_up_length(length: int) -> int:
    """Return the padded length, so that BERT's input is a multiple of LENGTH_BLOCK."""
    return -(-(length + SPECIAL_TOKENS) // LENGTH_BLOCK) * LENGTH_BLOCK - SPECIAL_TOKENS


def get_dense_ranker(checkpoint: RankerCheckpoint) -> DenseRanker:
    """Return the network of a checkpoint. Raises TypeError if it is not a DenseRanker."""
    from aragorn.models.network import DenseRanker

    if not isinstance(checkpoint.network, DenseRanker):
        raise TypeError(f"{checkpoint.network.get_name()} is not a dense ranker")
    return checkpoint.network
