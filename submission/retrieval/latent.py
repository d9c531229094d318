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

from submission.engine.base import LOCAL_ENGINE, Engine
from submission.engine.shards import Shard, compute_shards
from submission.errors import abbreviate
from submission.inference.device import map_batches, single_thread
from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.models.padding import pad
from submission.models.ranker import LatentRanker
from submission.rankings import MAX_DEPTH
from submission.retrieval.sparse_matrix import CSR_FILES, CSRMatrix, merge_shards
from submission.retrieval.top_k import top_k
from submission.storage.artifact_store import ArtifactStore, array_from_npy, npy_bytes
from submission.text.tokenisers import Tokeniser

log = logging.getLogger(__name__)

BATCH_SIZE = 2048  # documents per batch; larger batches share more words
KEPT_TOGETHER = 4096  # documents per shard
PARTS = "parts"
POSTING_DTYPE = np.dtype([("term", np.int32), ("document", np.int32), ("weight", np.float32)])


class LatentIndex:
    """Memory-mapped postings of a collection."""

    def __init__(self, files: Sequence[Path], size: int) -> None:
        """Open the files of a collection of `size` documents."""
        self._rows, self._size = CSRMatrix(files), size

    @property
    def sparsity(self) -> float:
        """Return the fraction of zeros in the document vectors (Entezari 2020, eq. 3.19)."""
        return 1 - len(self._rows.data) / (self._size * len(self._rows))

    def score_all(self, query: np.ndarray) -> np.ndarray:
        """Compute the dot products (documents,) float32 of a latent query vector (latent,) with all documents."""
        scores = np.zeros(self._size, dtype=np.float32)
        for term in np.flatnonzero(query):
            documents, weights = self._rows.row(int(term))
            scores[documents] += query[term] * weights
        return scores


def load_or_build_latent_index(
    collection: list[str],
    texts: Callable[[list[str]], pd.DataFrame],
    checkpoint: RankerCheckpoint,
    device: torch.device,
    kept: ArtifactStore,
    engine: Engine = LOCAL_ENGINE,
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
    files = kept.build_files(CSR_FILES, partial(_build_index, collection, texts, checkpoint, device, kept, engine))
    shutil.rmtree(kept.directory / PARTS, ignore_errors=True)
    index = LatentIndex(files, len(collection))
    size = sum(file.stat().st_size for file in files) / 1e6
    log.info("latent index: %d documents, %.2f %% zeros, %.1f MB", len(collection), 100 * index.sparsity, size)
    return index


def search(topics: pd.DataFrame, collection: list[str], checkpoint: RankerCheckpoint, index: LatentIndex) -> pd.DataFrame:
    """Return the top documents of topics `qid query` as `qid docno score`, score > 0.

    At most `DEEPEST` per topic; ties go to the first document of the collection.
    """
    ranker = _get_latent_ranker(checkpoint).cpu()
    rows = []
    for qid, text in zip(topics["qid"], topics["query"], strict=True):
        with torch.inference_mode(), single_thread():
            query = ranker.encode(*pad([checkpoint.tokeniser.encode_query(text)]))[0].numpy()
        scores = index.score_all(query)
        if not scores.any():
            log.warning(
                "topic %s (%s): no document shares a latent term with the query; its ranking is empty", qid, abbreviate(text)
            )
        rows += [(qid, collection[row], scores[row]) for row in top_k(scores, MAX_DEPTH) if scores[row] > 0]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"]).astype({"score": np.float64})


def _build_index(
    collection: list[str],
    texts: Callable[[list[str]], pd.DataFrame],
    checkpoint: RankerCheckpoint,
    device: torch.device,
    kept: ArtifactStore,
    engine: Engine,
    *files: Path,
) -> None:
    """Compute the postings of all shards, then merge them by latent term."""
    with torch.inference_mode():
        latent_size = _get_latent_ranker(checkpoint).cpu().encode(*pad([[]])).shape[1]

    def make_shard(start: int) -> Shard[tuple[int, list[str]]]:
        docnos = collection[start : start + KEPT_TOGETHER]
        return Shard(f"{start:09}.npy", len(docnos), lambda: (start, texts(docnos)["premise"].tolist()), can_load_remotely=True)

    shards = [make_shard(start) for start in range(0, len(collection), KEPT_TOGETHER)]
    encode, shard_cache = partial(encode_shard, checkpoint, device), ArtifactStore(kept.directory / PARTS, {})
    content = compute_shards(encode, shards, shard_cache, engine, device, "latent index", "documents")

    def iter_shards() -> Iterator[np.ndarray]:
        return map(array_from_npy, map(content, range(len(shards))))

    counts = [np.bincount(shard["term"], minlength=latent_size) for shard in iter_shards()]
    merge_shards(((shard["document"], shard["weight"]) for shard in iter_shards()), counts, np.float32, files)


def encode_shard(checkpoint: RankerCheckpoint, device: torch.device, shard: tuple[int, list[str]]) -> bytes:
    """Compute the postings of premises as .npy bytes; the shard is the position of its first document and the premises."""
    start, premises = shard
    return npy_bytes(
        _compute_postings(premises, start, _get_latent_ranker(checkpoint).to(device), checkpoint.tokeniser, device)
    )


def _compute_postings(
    texts: list[str], start: int, ranker: LatentRanker, tokeniser: Tokeniser, device: torch.device
) -> np.ndarray:
    """Compute the postings of documents, sorted by term, then document."""
    ids = [tokeniser.encode_premise(text) for text in texts]

    def encode(rows: np.ndarray) -> Tensor:
        return ranker.encode_batch(*(tensor.to(device) for tensor in pad([ids[row] for row in rows]))).cpu()

    # Mix short and long texts in each batch, so that no thread gets only long ones.
    by_length, batch_count = np.argsort([len(sequence) for sequence in ids], kind="stable"), -(-len(ids) // BATCH_SIZE)
    batches = [by_length[first::batch_count] for first in range(batch_count)]
    postings = []
    for rows, vectors in zip(batches, map_batches(encode, batches, device, torch.cat), strict=True):
        values = vectors.numpy()
        document, term = values.nonzero()
        entries = np.empty(len(term), dtype=POSTING_DTYPE)
        entries["term"], entries["document"], entries["weight"] = term, rows[document] + start, values[document, term]
        postings.append(entries)
    merged = np.concatenate(postings)
    return merged[np.lexsort((merged["document"], merged["term"]))]


def _get_latent_ranker(checkpoint: RankerCheckpoint) -> LatentRanker:
    if not isinstance(checkpoint.ranker, LatentRanker):
        raise TypeError(f"{checkpoint.ranker.get_name()} is not a latent ranker")
    return checkpoint.ranker
