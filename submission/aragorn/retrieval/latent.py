"""Index and search documents by the latent terms of SNRM (Zamani et al. 2018, section 3.4; Entezari
2020, eq. 3.22).

The index is a sparse matrix of positive weights: rows are latent terms, columns are document
positions in the collection, values are float32.
"""

import logging
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from aragorn.cache import Parts, decode_npy, encode_npy
from aragorn.engine.base import LOCAL_ENGINE, Engine
from aragorn.engine.shards import Shard, compute_shards
from aragorn.errors import abbreviate
from aragorn.inference.device import map_batches, use_single_thread
from aragorn.inference.ranker_checkpoint import RankerCheckpoint
from aragorn.models.padding import pad
from aragorn.models.ranker import LatentRanker
from aragorn.rankings import MAX_DEPTH
from aragorn.retrieval.sparse_matrix import CSR_FILES, CSRMatrix, merge_shards, select_top_k

VERSION = 1  # of postings and scores

log = logging.getLogger(__name__)

# documents per batch; without hidden layers, SNRM convolves each distinct word of a batch once
BATCH_SIZE = 2048
SHARD_SIZE = 4096  # documents per shard
POSTING_DTYPE = np.dtype([("term", np.int32), ("document", np.int32), ("weight", np.float32)])


class LatentIndex:
    """Inverted index from latent terms to the documents that contain them, with weights."""

    def __init__(self, directory: Path, size: int) -> None:
        """Open the index of `size` documents in a directory."""
        files = [directory / name for name in CSR_FILES]
        self._postings, self._size = CSRMatrix(files), size
        megabytes = sum(file.stat().st_size for file in files) / 1e6
        message = "latent index: %d documents, %.2f %% zero weights, %.1f MB"
        log.info(message, size, 100 * self.sparsity, megabytes)

    @property
    def sparsity(self) -> float:
        """Fraction of zeros in the document vectors (Entezari 2020, eq. 3.19)."""
        return 1 - len(self._postings.data) / (self._size * len(self._postings))

    def score_all(self, query: np.ndarray) -> np.ndarray:
        """Compute the dot products (documents,) float32 of all documents with a latent query vector
        (latent,)."""
        scores = np.zeros(self._size, dtype=np.float32)
        for term in np.flatnonzero(query):
            documents, weights = self._postings.get_row(int(term))
            scores[documents] += query[term] * weights
        return scores


def search(
    topics: pd.DataFrame, docnos: list[str], checkpoint: RankerCheckpoint, index: LatentIndex
) -> pd.DataFrame:
    """Return at most `MAX_DEPTH` documents `qid docno score` with the highest positive scores for
    each topic `qid query`.

    Ties go to the first document of the collection. A topic without hits gets an empty ranking and
    a warning.
    """
    ranker, rows = _get_latent_ranker(checkpoint), []
    if any(parameter.is_cuda for parameter in ranker.parameters()):
        # because another thread may be using the network on the GPU
        ranker = deepcopy(ranker).cpu()
    for qid, text in zip(topics["qid"], topics["query"], strict=True):
        with torch.inference_mode(), use_single_thread():
            query = ranker.encode(*pad([checkpoint.tokeniser.encode_query(text)]))[0].numpy()
        scores = index.score_all(query)
        if not scores.any():
            reason = "no document shares a latent term with the query"
            log.warning("topic %s (%s): %s; its ranking is empty", qid, abbreviate(text), reason)
        rows += [
            (qid, docnos[row], scores[row])
            for row in select_top_k(scores, MAX_DEPTH)
            if scores[row] > 0
        ]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"]).astype({"score": np.float64})


def build_latent_index(
    directory: Path,
    docnos: list[str],
    load_premises: Callable[[list[str]], pd.DataFrame],
    checkpoint: RankerCheckpoint,
    device: torch.device,
    parts: Parts,
    engine: Engine = LOCAL_ENGINE,
) -> None:
    """Compute the postings of all shards that `parts` lacks, then merge them by latent term into
    the files of a `LatentIndex`.

    `load_premises` loads `docno premise` by docno, in order. The checkpoint must be of a
    LatentRanker.
    """
    with torch.inference_mode():
        latent_size = _get_latent_ranker(checkpoint).cpu().encode(*pad([[]])).shape[1]

    def make_shard(start: int) -> Shard[tuple[int, list[str]]]:
        shard = docnos[start : start + SHARD_SIZE]
        return Shard(
            f"{start:09}",
            len(shard),
            lambda: (start, load_premises(shard)["premise"].tolist()),
            True,
        )

    shards = [make_shard(start) for start in range(0, len(docnos), SHARD_SIZE)]
    encode = partial(encode_shard, checkpoint, device)
    read_shard = compute_shards(encode, shards, parts, engine, device, "latent index", "documents")

    def iter_shards() -> Iterator[np.ndarray]:
        return map(decode_npy, map(read_shard, range(len(shards))))

    counts = [np.bincount(shard["term"], minlength=latent_size) for shard in iter_shards()]
    postings = ((shard["document"], shard["weight"]) for shard in iter_shards())
    merge_shards(postings, counts, np.float32, [directory / name for name in CSR_FILES])


def encode_shard(
    checkpoint: RankerCheckpoint, device: torch.device, shard: tuple[int, list[str]]
) -> bytes:
    """Compute the postings of a shard, sorted by term, then document, as the bytes of a .npy file.

    A shard consists of the position of its first document in the collection, and its premises.
    """
    start, premises = shard
    ids = [checkpoint.tokeniser.encode_premise(premise) for premise in premises]
    ranker = _get_latent_ranker(checkpoint).to(device)

    def encode(rows: np.ndarray) -> Tensor:
        return ranker.encode_batch(
            *(tensor.to(device) for tensor in pad([ids[row] for row in rows]))
        ).cpu()

    # Mix short and long texts in each batch, so that no thread gets only long ones.
    by_length, batch_count = (
        np.argsort([len(sequence) for sequence in ids], kind="stable"),
        -(-len(ids) // BATCH_SIZE),
    )
    batches = [by_length[first::batch_count] for first in range(batch_count)]
    postings = []
    for rows, vectors in zip(batches, map_batches(encode, batches, device, torch.cat), strict=True):
        values = vectors.numpy()
        document, term = values.nonzero()
        entries = np.empty(len(term), dtype=POSTING_DTYPE)
        entries["term"], entries["document"], entries["weight"] = (
            term,
            rows[document] + start,
            values[document, term],
        )
        postings.append(entries)
    shard_postings = np.concatenate(postings)
    return encode_npy(
        shard_postings[np.lexsort((shard_postings["document"], shard_postings["term"]))]
    )


def _get_latent_ranker(checkpoint: RankerCheckpoint) -> LatentRanker:
    if not isinstance(checkpoint.network, LatentRanker):
        raise TypeError(f"{checkpoint.network.get_name()} is not a latent ranker")
    return checkpoint.network
