"""SNRM's inverted index, memory-mapped: latent term → documents with a positive weight.

Zamani et al. 2018, section 3.4; Entezari 2020, eq. 3.22. Rows are latent terms, columns are document positions in the
collection, values are float32.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.engine.base import HERE, Engine
from submission.engine.shards import Part, kept_parts
from submission.errors import short
from submission.inference.batching import pad
from submission.inference.device import in_batches, one_thread
from submission.inference.ranker_checkpoint import Checkpoint
from submission.models.ranker import LatentRanker
from submission.rankings import DEEPEST
from submission.retrieval.sparse_matrix import FILES, Rows, write_rows
from submission.retrieval.top_k import top_k
from submission.storage.artifact_store import Kept, array_of, npy
from submission.text.tokenisers import Tokeniser

log = logging.getLogger(__name__)

BATCH = 2048  # documents per batch; larger batches share more words
KEPT_TOGETHER = 4096  # documents per shard
PARTS = "parts"
POSTING = np.dtype([("term", np.int32), ("document", np.int32), ("weight", np.float32)])


class LatentIndex:
    """Memory-mapped postings of a collection."""

    def __init__(self, files: Sequence[Path], size: int) -> None:
        """Open the files of a collection of `size` documents."""
        self._rows, self._size = Rows(files), size

    @property
    def sparsity(self) -> float:
        """Return the fraction of zeros in the document vectors (Entezari 2020, eq. 3.19)."""
        return 1 - len(self._rows.data) / (self._size * len(self._rows))

    def scores(self, query: np.ndarray) -> np.ndarray:
        """Compute the dot products (documents,) float32 of a latent query vector (latent,) with all documents."""
        scores = np.zeros(self._size, dtype=np.float32)
        for term in np.flatnonzero(query):
            documents, weights = self._rows.row(int(term))
            scores[documents] += query[term] * weights
        return scores


def latent_index(
    collection: list[str],
    texts: Callable[[list[str]], pd.DataFrame],
    checkpoint: Checkpoint,
    device: torch.device,
    kept: Kept,
    engine: Engine = HERE,
) -> LatentIndex:
    """Load the latent index of a collection from the cache, or build it, resuming from completed shards.

    Args:
        collection: docnos.
        texts: loads `docno premise` of docnos in order; used only if the index is built.
        checkpoint: of a LatentRanker.
        device: device for each shard.
        kept: artifact store; its key must cover all other arguments.
        engine: computes the shards.

    Raises:
        OutputError: the cache cannot be written.
    """
    files = kept.make(FILES, partial(_build, collection, texts, checkpoint, device, kept, engine))
    shutil.rmtree(kept.directory / PARTS, ignore_errors=True)
    index = LatentIndex(files, len(collection))
    size = sum(file.stat().st_size for file in files) / 1e6
    log.info("latent index: %d documents, %.2f %% zeros, %.1f MB", len(collection), 100 * index.sparsity, size)
    return index


def nearest(topics: pd.DataFrame, collection: list[str], checkpoint: Checkpoint, index: LatentIndex) -> pd.DataFrame:
    """Return the top documents of topics `qid query` as `qid docno score`, score > 0.

    At most `DEEPEST` per topic; ties go to the first document of the collection.
    """
    ranker = _latent(checkpoint).cpu()
    rows = []
    for qid, text in zip(topics["qid"], topics["query"], strict=True):
        with torch.inference_mode(), one_thread():
            query = ranker.represent(*pad([checkpoint.tokeniser.query(text)]))[0].numpy()
        scores = index.scores(query)
        if not scores.any():
            log.warning(
                "topic %s (%s): no document shares a latent term with the query; its ranking is empty", qid, short(text)
            )
        rows += [(qid, collection[row], scores[row]) for row in top_k(scores, DEEPEST) if scores[row] > 0]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"]).astype({"score": np.float64})


def _build(
    collection: list[str],
    texts: Callable[[list[str]], pd.DataFrame],
    checkpoint: Checkpoint,
    device: torch.device,
    kept: Kept,
    engine: Engine,
    *files: Path,
) -> None:
    """Compute the postings of all shards, then merge them by latent term."""
    with torch.inference_mode():
        latent_size = _latent(checkpoint).cpu().represent(*pad([[]])).shape[1]

    def make_shard(start: int) -> Part[tuple[int, list[str]]]:
        docnos = collection[start : start + KEPT_TOGETHER]
        return Part(f"{start:09}.npy", len(docnos), lambda: (start, texts(docnos)["premise"].tolist()), travels=True)

    shards = [make_shard(start) for start in range(0, len(collection), KEPT_TOGETHER)]
    encode, shard_cache = partial(encode_shard, checkpoint, device), Kept(kept.directory / PARTS, {})
    content = kept_parts(encode, shards, shard_cache, engine, device, "latent index", "documents")

    def iter_shards() -> Iterator[np.ndarray]:
        return map(array_of, map(content, range(len(shards))))

    counts = [np.bincount(shard["term"], minlength=latent_size) for shard in iter_shards()]
    write_rows(((shard["document"], shard["weight"]) for shard in iter_shards()), counts, np.float32, files)


def encode_shard(checkpoint: Checkpoint, device: torch.device, shard: tuple[int, list[str]]) -> bytes:
    """Compute the postings of premises as .npy bytes; the shard is the position of its first document and the premises."""
    start, premises = shard
    return npy(_postings(premises, start, _latent(checkpoint).to(device), checkpoint.tokeniser, device))


def _postings(texts: list[str], start: int, ranker: LatentRanker, tokeniser: Tokeniser, device: torch.device) -> np.ndarray:
    """Compute the postings of documents, sorted by term, then document."""
    ids = [tokeniser.premise(text) for text in texts]

    def encode(rows: np.ndarray) -> Tensor:
        return ranker.represent_many(*(tensor.to(device) for tensor in pad([ids[row] for row in rows]))).cpu()

    # Mix short and long texts in each batch, so that no thread gets only long ones.
    by_length, batch_count = np.argsort([len(sequence) for sequence in ids], kind="stable"), -(-len(ids) // BATCH)
    batches = [by_length[first::batch_count] for first in range(batch_count)]
    postings = []
    for rows, vectors in zip(batches, in_batches(encode, batches, device, torch.cat), strict=True):
        values = vectors.numpy()
        document, term = values.nonzero()
        entries = np.empty(len(term), dtype=POSTING)
        entries["term"], entries["document"], entries["weight"] = term, rows[document] + start, values[document, term]
        postings.append(entries)
    merged = np.concatenate(postings)
    return merged[np.lexsort((merged["document"], merged["term"]))]


def _latent(checkpoint: Checkpoint) -> LatentRanker:
    if not isinstance(checkpoint.ranker, LatentRanker):
        raise TypeError(f"{checkpoint.ranker.name()} is not a latent ranker")
    return checkpoint.ranker
