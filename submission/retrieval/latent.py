"""SNRM's inverted index: latent term → the documents with a positive weight there, on disk and memory-mapped.

Zamani et al. 2018, section 3.4; thesis eq. 3.22. Its rows are latent terms, the columns numbers of
documents in the collection, the values float32.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.disk.kept import Kept, array_of, npy
from submission.engine.engine import HERE, Engine
from submission.engine.parts import Part, kept_parts
from submission.errors import short
from submission.lists import DEEPEST
from submission.rankers.base import LatentRanker
from submission.retrieval.ranking import top_k
from submission.retrieval.rows import FILES, Rows, write_rows
from submission.scoring.batches import pad
from submission.scoring.checkpoint import Checkpoint
from submission.scoring.device import in_batches, one_thread
from submission.text.tokenisers import Tokeniser

log = logging.getLogger(__name__)

BATCH = 2048  # documents computed at a time: the more, the more often a word is met again
KEPT_TOGETHER = 4096  # documents, while building
PARTS = "parts"
POSTING = np.dtype([("term", np.int32), ("document", np.int32), ("weight", np.float32)])


class LatentIndex:
    """The postings of a collection."""

    def __init__(self, files: Sequence[Path], size: int) -> None:
        """Open the files of a collection of so many documents."""
        self._rows, self._size = Rows(files), size

    @property
    def sparsity(self) -> float:
        """The share of zeros in the documents' vectors (thesis eq. 3.19)."""
        return 1 - len(self._rows.data) / (self._size * len(self._rows))

    def scores(self, query: np.ndarray) -> np.ndarray:
        """The dot products (documents,) float32 of a latent vector (latent,) with all documents' vectors."""
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
    """The index of a collection, made unless it is kept.

    Parts that an interrupted process finished are used.

    Args:
        collection: the docnos.
        texts: gives `docno premise` of some of them, in their order; asked only if there is something to build.
        checkpoint: of a LatentRanker.
        device: what each part is computed on.
        kept: where it is kept; it must be of these very arguments.
        engine: where the parts are computed.

    Raises:
        OutputError: that place cannot be written.
    """
    files = kept.make(FILES, partial(_build, collection, texts, checkpoint, device, kept, engine))
    shutil.rmtree(kept.directory / PARTS, ignore_errors=True)
    index = LatentIndex(files, len(collection))
    size = sum(file.stat().st_size for file in files) / 1e6
    log.info("latent index: %d documents, %.2f %% zeros, %.1f MB", len(collection), 100 * index.sparsity, size)
    return index


def nearest(topics: pd.DataFrame, collection: list[str], checkpoint: Checkpoint, index: LatentIndex) -> pd.DataFrame:
    """The best documents of a collection for topics `qid query`: `qid docno score`, score above 0.

    At most so many a topic as a run can have. Among equal scores those first that come first in the collection.
    """
    ranker = _latent(checkpoint).cpu()
    rows = []
    for qid, text in zip(topics["qid"], topics["query"], strict=True):
        with torch.inference_mode(), one_thread():
            query = ranker.represent(*pad([checkpoint.tokeniser.query(text)]))[0].numpy()
        scores = index.scores(query)
        best = top_k(scores, DEEPEST)
        if not scores.any():
            log.warning("topic %s (%s): no document shares a latent term with it; its list is empty", qid, short(text))
        rows += [(qid, collection[number], scores[number]) for number in best if scores[number] > 0]
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
    """Vectors part by part, then the parts' postings put behind each other term by term."""
    with torch.inference_mode():
        latent = _latent(checkpoint).cpu().represent(*pad([[]])).shape[1]

    def part(start: int) -> Part[tuple[int, list[str]]]:
        docnos = collection[start : start + KEPT_TOGETHER]
        return Part(f"{start:09}.npy", len(docnos), lambda: (start, texts(docnos)["premise"].tolist()), travels=True)

    parts, place = [part(start) for start in range(0, len(collection), KEPT_TOGETHER)], Kept(kept.directory / PARTS, {})
    content = kept_parts(Postings(checkpoint, device), parts, place, engine, device, "latent index", "documents")

    def found() -> Iterator[np.ndarray]:
        return map(array_of, map(content, range(len(parts))))

    counts = [np.bincount(one["term"], minlength=latent) for one in found()]
    write_rows(((one["document"], one["weight"]) for one in found()), counts, np.float32, files)


@dataclass(frozen=True)
class Postings:
    """Computes a part of the postings as the content of a file; can be pickled for another process."""

    checkpoint: Checkpoint
    device: torch.device

    def __call__(self, part: tuple[int, list[str]]) -> bytes:
        """The postings of some premises, the first of which has the given number, as .npy."""
        start, premises = part
        ranker = _latent(self.checkpoint).to(self.device)
        return npy(_postings(premises, start, ranker, self.checkpoint.tokeniser, self.device))


def _postings(texts: list[str], start: int, ranker: LatentRanker, tokeniser: Tokeniser, device: torch.device) -> np.ndarray:
    """The postings of some documents, by term, then document."""
    ids = [tokeniser.premise(text) for text in texts]

    def vectors(rows: np.ndarray) -> Tensor:
        return ranker.represent_many(*(tensor.to(device) for tensor in pad([ids[row] for row in rows]))).cpu()

    # Short and long texts in each batch, ordered: a thread that had the long ones alone would be waited for.
    order, number = np.argsort([len(sequence) for sequence in ids], kind="stable"), -(-len(ids) // BATCH)
    parts, work = [], [order[first::number] for first in range(number)]
    for rows, batch in zip(work, in_batches(vectors, work, device, torch.cat), strict=True):
        values = batch.numpy()
        document, term = values.nonzero()
        found = np.empty(len(term), dtype=POSTING)
        found["term"], found["document"], found["weight"] = term, rows[document] + start, values[document, term]
        parts.append(found)
    postings = np.concatenate(parts)
    return postings[np.lexsort((postings["document"], postings["term"]))]


def _latent(checkpoint: Checkpoint) -> LatentRanker:
    if not isinstance(checkpoint.ranker, LatentRanker):
        raise TypeError(f"{checkpoint.ranker.name()} has no latent vectors")
    return checkpoint.ranker
