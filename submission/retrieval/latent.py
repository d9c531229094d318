"""SNRM's inverted index: latent term → the documents with a positive weight there, on disk and memory-mapped.

Zamani et al. 2018, section 3.4; thesis eq. 3.22. An index is a directory:

offsets.npy    (latent + 1,) int64: where the postings of a term begin
documents.npy  (postings,) int32: row numbers in the collection, ascending within a term
weights.npy    (postings,) float32
index.json     what it is, written last: without it the directory is unfinished
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.checkpoint import Checkpoint
from submission.device import in_halves
from submission.encoding import Encoder, batches, pad
from submission.errors import OutputError
from submission.files import make_directory, write_whole
from submission.progress import progress
from submission.rankers.base import LatentRanker
from submission.work import kept

log = logging.getLogger(__name__)

BATCH = 2048  # documents computed at a time: the more, the more often a word is met again
PART = 4096  # documents whose vectors are kept together while building
POSTING = np.dtype([("term", np.int32), ("document", np.int32), ("weight", np.float32)])
OFFSETS, DOCUMENTS, WEIGHTS, RECORD = "offsets.npy", "documents.npy", "weights.npy", "index.json"


@dataclass(frozen=True)
class Size:
    """What index.json says."""

    documents: int
    latent_terms: int
    postings: int
    bytes: int
    sparsity: float  # share of zeros in the documents' vectors (thesis eq. 3.19)


class LatentIndex:
    """The postings of a collection."""

    def __init__(self, directory: Path) -> None:
        """Open a finished index; postings stay on disk until they are asked for."""
        self.size = Size(**json.loads((directory / RECORD).read_text(encoding="utf-8")))
        self._offsets = np.load(directory / OFFSETS)
        self._documents, self._weights = (np.load(directory / name, mmap_mode="r") for name in (DOCUMENTS, WEIGHTS))

    def scores(self, query: np.ndarray) -> np.ndarray:
        """The dot products (documents,) float32 of a latent vector (latent,) with all documents' vectors."""
        scores = np.zeros(self.size.documents, dtype=np.float32)
        for term in np.flatnonzero(query):
            postings = slice(self._offsets[term], self._offsets[term + 1])
            scores[self._documents[postings]] += query[term] * self._weights[postings]
        return scores


def latent_index(
    premises: Callable[[], list[str]], checkpoint: Checkpoint, device: torch.device, directory: Path
) -> LatentIndex:
    """The index of a collection, opened, and built before where that is not done.

    Parts that an interrupted process finished are used.

    Args:
        premises: gives those of the collection; asked only if there is something to build.
        checkpoint: of a LatentRanker.
        device: where to compute.
        directory: where it is kept; it must be of these very arguments.

    Raises:
        OutputError: the directory cannot be written.
    """
    if not (directory / RECORD).exists():
        _build(premises(), checkpoint, device, directory)
    index = LatentIndex(directory)
    size = index.size
    log.info(
        "latent index: %d documents, %d postings, %.2f %% zeros, %.1f MB",
        size.documents, size.postings, 100 * size.sparsity, size.bytes / 1e6,
    )  # fmt: skip
    return index


def retrieve(
    topics: pd.DataFrame, collection: list[str], checkpoint: Checkpoint, index: LatentIndex, depth: int
) -> pd.DataFrame:
    """The best documents of a collection for topics `qid query`: `qid docno score`, score above 0, at most `depth` a topic.

    Equal scores are ordered by docno, in which the collection's docnos are sorted.
    """
    ranker = _latent(checkpoint).cpu()
    rows = []
    for qid, text in zip(topics["qid"], topics["query"], strict=True):
        with torch.inference_mode():
            query = ranker.represent(*pad([checkpoint.encoder.query(text)]))[0].numpy()
        scores = index.scores(query)
        best = np.argsort(-scores, kind="stable")[:depth]
        if not scores.any():
            log.warning("topic %s (%s): no document shares a latent term with it; its list is empty", qid, text)
        rows += [(qid, collection[number], scores[number]) for number in best if scores[number] > 0]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"]).astype({"score": np.float32})


def _build(premises: list[str], checkpoint: Checkpoint, device: torch.device, directory: Path) -> None:
    """Vectors part by part, then the parts' postings put behind each other term by term."""
    ranker, encoder = _latent(checkpoint).cpu(), checkpoint.encoder
    parts_directory = directory / "parts"
    make_directory(parts_directory)
    starts = range(0, len(premises), PART)
    sizes = [min(PART, len(premises) - start) for start in starts]
    latent = ranker.represent(*pad([[]])).shape[1]
    ranker.to(device)
    files, counts = [], []
    for start in progress(starts, "latent index", "documents", sizes):
        texts = premises[start : start + PART]
        file = parts_directory / f"{start:09}.npy"
        part = kept(file, partial(_postings, texts, start, ranker, encoder, device))
        files.append(file)
        counts.append(np.bincount(part["term"], minlength=latent))
    offsets = np.concatenate([[0], np.sum(counts, axis=0).cumsum()]).astype(np.int64)
    try:
        _merge(files, counts, offsets, directory)
    except OSError as error:
        raise OutputError(f"{directory}: cannot be written ({error.strerror}); free space or choose another --work") from None
    postings = int(offsets[-1])
    total = sum((directory / name).stat().st_size for name in (OFFSETS, DOCUMENTS, WEIGHTS))
    size = Size(len(premises), latent, postings, total, 1 - postings / (len(premises) * latent))
    write_whole(directory / RECORD, json.dumps(asdict(size), indent=1) + "\n")
    shutil.rmtree(parts_directory, ignore_errors=True)


@torch.inference_mode()
def _postings(texts: list[str], start: int, ranker: LatentRanker, encoder: Encoder, device: torch.device) -> np.ndarray:
    """The postings of some documents, by term, then document."""
    ids = [encoder.premise(text) for text in texts]

    def batch(rows: np.ndarray) -> Tensor:
        return ranker.represent_many(*(tensor.to(device) for tensor in pad([ids[row] for row in rows]))).cpu()

    parts = []
    for rows in batches([len(sequence) for sequence in ids], BATCH):
        vectors = in_halves(batch, rows).numpy()
        document, term = vectors.nonzero()
        found = np.empty(len(term), dtype=POSTING)
        found["term"], found["document"], found["weight"] = term, rows[document] + start, vectors[document, term]
        parts.append(found)
    postings = np.concatenate(parts)
    return postings[np.lexsort((postings["document"], postings["term"]))]


def _merge(files: list[Path], counts: list[np.ndarray], offsets: np.ndarray, directory: Path) -> None:
    np.save(directory / OFFSETS, offsets)
    documents = _allocated(directory / DOCUMENTS, np.int32, int(offsets[-1]))
    weights = _allocated(directory / WEIGHTS, np.float32, int(offsets[-1]))
    free = offsets[:-1].copy()
    for file, count in zip(files, counts, strict=True):
        part = np.load(file)
        # Where each posting goes: its term's first free place, and on from there within the part.
        places = np.repeat(free - (count.cumsum() - count), count) + np.arange(len(part))
        documents[places], weights[places] = part["document"], part["weight"]
        free += count
    documents.flush()
    weights.flush()


def _allocated(file: Path, dtype: type[np.generic], length: int) -> np.memmap[Any, Any]:
    """A new .npy file to be filled, its space taken: writing into a mapped file on a full disk would kill the process."""
    array = np.lib.format.open_memmap(file, "w+", dtype, (length,))
    with file.open("r+b") as stream:
        os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
    return array


def _latent(checkpoint: Checkpoint) -> LatentRanker:
    if not isinstance(checkpoint.ranker, LatentRanker):
        raise TypeError(f"{checkpoint.ranker.name()} has no latent vectors")
    return checkpoint.ranker
