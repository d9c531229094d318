"""Vectors of texts in half precision, on disk and memory-mapped, and the texts nearest to a query: exact, by blocks.

vectors.npy  (texts, dimensions) float16, each row of length 1 before it was rounded
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

from submission.disk.kept import Kept, array_of, npy
from submission.engine.engine import HERE, Engine, computed
from submission.engine.parts import Part, kept_parts
from submission.rankers.base import DenseRanker
from submission.retrieval.ranking import top_k
from submission.retrieval.rows import allocated
from submission.scoring.batches import Ids, batches_of_positions, pad
from submission.scoring.checkpoint import Checkpoint
from submission.scoring.device import in_batches, one_thread, positions
from submission.scoring.precision import on_device

VECTORS, NAMES, PARTS = "vectors.npy", "names.msgpack", "parts"
KEPT_TOGETHER = 1024  # texts, while encoding: a kill costs so many
BLOCK = 16384  # vectors multiplied at a time
QUERIES = 64  # that are multiplied with at a time
SLACK = 1e-4  # by which a product in single precision may be wrong, many times over


@dataclass(frozen=True)
class Texts:
    """Named texts, and what they are read as."""

    names: Sequence[str]
    of: Callable[[list[str]], list[str]]  # those of some names, in their order
    read_as: Literal["query", "premise"]


class DenseIndex:
    """The vectors of named texts."""

    def __init__(self, names: Sequence[str], file: Path) -> None:
        """Open the vectors of texts by these names; they stay on disk until they are asked for."""
        self.names = names
        self._vectors = np.load(file, mmap_mode="r")
        self._numbers = {name: number for number, name in enumerate(names)}

    def scores(self, query: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Compute the cosines (N,) of a query's vector and those of some texts; each is independent of the others."""
        return self._exact(query, np.array([self._numbers[name] for name in names], dtype=int))

    def nearest(self, queries: np.ndarray, depth: int) -> Iterator[tuple[list[str], np.ndarray]]:
        """Yield for each of the vectors (Q, V) the `depth` texts with the highest cosines, and their cosines.

        Ties: the first in the index. Exact: a float32 shortlist over all texts is rescored pair by pair.
        """
        for start in range(0, len(queries), QUERIES):
            some = queries[start : start + QUERIES]
            for query, products in zip(some, self._products(some), strict=True):
                least = np.partition(products, -depth)[-depth] - SLACK if len(products) > depth else -np.inf
                found = np.flatnonzero(products >= least)
                scores = self._exact(query, found)
                order = top_k(scores, depth)
                yield [self.names[number] for number in found[order]], scores[order]

    def _products(self, queries: np.ndarray) -> np.ndarray:
        """Compute the products (queries, texts) float32."""
        products = np.empty((len(queries), len(self.names)), dtype=np.float32)
        factor = torch.from_numpy(queries).t()
        for start in range(0, len(self.names), BLOCK):
            block = torch.from_numpy(self._vectors[start : start + BLOCK].astype(np.float32))
            products[:, start : start + BLOCK] = (block @ factor).t().numpy()
        return products

    def _exact(self, query: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Sums in double precision, each row's in the same order, as the float32 that a run can hold."""
        products: np.ndarray = self._vectors[numbers].astype(np.float64) * query.astype(np.float64)
        scores: np.ndarray = products.sum(axis=1).astype(np.float32).astype(np.float64)
        return scores


def dense_index(texts: Texts, checkpoint: Checkpoint, device: torch.device, kept: Kept, engine: Engine = HERE) -> DenseIndex:
    """The vectors of named texts, made unless they are kept. Parts that an interrupted process finished are used.

    Args:
        texts: read only if there is something to build.
        checkpoint: of a DenseRanker.
        device: what each part is computed on.
        kept: where they are kept; it must be of these very arguments.
        engine: where the parts are computed.

    Raises:
        OutputError: that place cannot be written.
    """
    [file] = kept.make([VECTORS], partial(_build, texts, checkpoint, device, kept, engine))
    shutil.rmtree(kept.directory / PARTS, ignore_errors=True)
    return DenseIndex(texts.names, file)


def premises_of(docnos: Sequence[str], texts: Callable[[list[str]], pd.DataFrame]) -> Texts:
    """The premises of documents, from what gives `docno premise` of some of them, in their order."""
    return Texts(docnos, lambda some: texts(some)["premise"].tolist(), "premise")


def titles_of(conclusions: Sequence[str]) -> Texts:
    """Conclusions, whose names they are themselves, read as titles are."""
    return Texts(conclusions, list, "query")


def conclusions_of(conclusions: Callable[[], pd.DataFrame], kept: Kept) -> dict[str, list[str]]:
    """The different conclusions of a collection `docno conclusion`, ascending, with the docnos of each, kept."""

    def made() -> bytes:
        collection = conclusions()
        found: dict[str, list[str]] = {}
        for conclusion, docno in sorted(zip(collection["conclusion"], collection["docno"], strict=True)):
            found.setdefault(conclusion, []).append(docno)
        return msgspec.msgpack.encode(found)

    return msgspec.msgpack.decode(kept.content(NAMES, made), type=dict[str, list[str]])


def represented(titles: Sequence[str], checkpoint: Checkpoint, device: torch.device, engine: Engine = HERE) -> np.ndarray:
    """The vectors (N, V) float32 of titles, each computed alone: a title's do not depend on the others."""
    return computed(engine, Represented(checkpoint, device), titles, device)


@dataclass(frozen=True)
class Represented:
    """Computes vectors of titles in float32; can be pickled for another process."""

    checkpoint: Checkpoint
    device: torch.device

    @torch.inference_mode()
    def __call__(self, titles: Sequence[str]) -> np.ndarray:
        """Compute vectors (N, V) float32."""
        ranker, read = _dense(self.checkpoint).to(self.device), self.checkpoint.tokeniser.query
        ranker.use_precision(None)  # whether or not an index was built before
        with one_thread():
            vectors = [ranker.represent(*(t.to(self.device) for t in pad([read(title)]))) for title in titles]
        return np.asarray(torch.cat(vectors).cpu(), dtype=np.float32)


@dataclass(frozen=True)
class Encoded:
    """Computes a part of the vectors as the content of a file; can be pickled."""

    checkpoint: Checkpoint
    read_as: Literal["query", "premise"]
    device: torch.device

    def __call__(self, texts: list[str]) -> bytes:
        """Compute vectors (N, V) float16, as the bytes of a .npy file."""
        ranker = on_device(_dense(self.checkpoint), self.device, self.checkpoint.precision)
        read = getattr(self.checkpoint.tokeniser, self.read_as)
        return npy(encoded([read(text) for text in texts], ranker, self.device, self.checkpoint.precision))


def _build(texts: Texts, checkpoint: Checkpoint, device: torch.device, kept: Kept, engine: Engine, file: Path) -> None:
    """Part by part, then all parts behind each other."""
    names, encode = texts.names, Encoded(checkpoint, texts.read_as, device)
    starts = range(0, len(names), KEPT_TOGETHER)

    def part(start: int) -> Part[list[str]]:
        some = list(names[start : start + KEPT_TOGETHER])
        return Part(f"{start:09}.npy", len(some), partial(texts.of, some), travels=True)

    name, parts = checkpoint.ranker.name(), [part(start) for start in starts]
    content = kept_parts(encode, parts, Kept(kept.directory / PARTS, {}), engine, device, name, "texts")
    first = array_of(content(0) if parts else computed(engine, encode, [""], device))
    array = allocated(file, np.float16, (len(names), first.shape[1]))
    for number, start in enumerate(starts):  # one at a time: all of them may be more than the memory
        array[start : start + KEPT_TOGETHER] = array_of(content(number))
    array.flush()


def encoded(
    texts: Sequence[Ids], ranker: DenseRanker, device: torch.device, precision: torch.dtype | None = None
) -> np.ndarray:
    """The vectors (N, V) float16 of texts as ids, the longest computed first: a GPU's memory is then asked for once."""
    work = batches_of_positions([len(text) for text in texts], positions(device, precision))

    def compute(rows: np.ndarray) -> Tensor:
        return ranker.represent(*(tensor.to(device) for tensor in pad([texts[row] for row in rows]))).cpu()

    vectors = np.asarray(torch.cat(in_batches(compute, work, device, torch.cat)), dtype=np.float32)
    made = np.empty(vectors.shape, dtype=np.float16)
    made[np.concatenate(work)] = vectors
    return made


def _dense(checkpoint: Checkpoint) -> DenseRanker:
    if not isinstance(checkpoint.ranker, DenseRanker):
        raise TypeError(f"{checkpoint.ranker.name()} has no dense vectors")
    return checkpoint.ranker
