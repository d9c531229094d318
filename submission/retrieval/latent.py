"""SNRM's inverted index: latent term → the documents with a positive weight there, on disk and memory-mapped.

Zamani et al. 2018, section 3.4; thesis eq. 3.22. Its rows are latent terms, the columns numbers of
documents in the collection, the values float32.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.disk.kept import Kept
from submission.errors import short
from submission.lists import DEEPEST
from submission.progress import progress
from submission.rankers.base import LatentRanker
from submission.retrieval.rows import FILES, Rows, write_rows
from submission.scoring.batches import batches, pad
from submission.scoring.checkpoint import Checkpoint
from submission.scoring.device import in_halves
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
        return 1 - len(self._rows.values) / (self._size * len(self._rows))

    def scores(self, query: np.ndarray) -> np.ndarray:
        """The dot products (documents,) float32 of a latent vector (latent,) with all documents' vectors."""
        scores = np.zeros(self._size, dtype=np.float32)
        for term in np.flatnonzero(query):
            documents, weights = self._rows.row(int(term))
            scores[documents] += query[term] * weights
        return scores


def latent_index(
    collection: list[str], texts: Callable[[list[str]], pd.DataFrame], checkpoint: Checkpoint, device: torch.device, kept: Kept
) -> LatentIndex:
    """The index of a collection, made unless it is kept.

    Parts that an interrupted process finished are used.

    Args:
        collection: the docnos.
        texts: gives `docno premise` of some of them; asked only if there is something to build.
        checkpoint: of a LatentRanker.
        device: where to compute.
        kept: where it is kept; it must be of these very arguments.

    Raises:
        OutputError: that place cannot be written.
    """
    files = kept.make(FILES, partial(_build, collection, texts, checkpoint, device, kept))
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
        with torch.inference_mode():
            query = ranker.represent(*pad([checkpoint.tokeniser.query(text)]))[0].numpy()
        scores = index.scores(query)
        best = np.argsort(-scores, kind="stable")[:DEEPEST]
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
    *files: Path,
) -> None:
    """Vectors part by part, then the parts' postings put behind each other term by term."""
    ranker, tokeniser = _latent(checkpoint).cpu(), checkpoint.tokeniser
    latent = ranker.represent(*pad([[]])).shape[1]
    ranker.to(device)
    parts = Kept(kept.directory / PARTS, {})
    starts = range(0, len(collection), KEPT_TOGETHER)
    sizes = [min(KEPT_TOGETHER, len(collection) - start) for start in starts]
    counts = []

    def part(start: int) -> np.ndarray:
        docnos = collection[start : start + KEPT_TOGETHER]

        def made() -> np.ndarray:
            premises = texts(docnos).set_index("docno")["premise"].loc[docnos].tolist()
            return _postings(premises, start, ranker, tokeniser, device)

        return parts.array(f"{start:09}.npy", made)

    for start in progress(starts, "latent index", "documents", sizes):
        counts.append(np.bincount(part(start)["term"], minlength=latent))
    write_rows(((found["document"], found["weight"]) for found in map(part, starts)), counts, np.float32, files)


@torch.inference_mode()
def _postings(texts: list[str], start: int, ranker: LatentRanker, tokeniser: Tokeniser, device: torch.device) -> np.ndarray:
    """The postings of some documents, by term, then document."""
    ids = [tokeniser.premise(text) for text in texts]

    def batch(rows: np.ndarray) -> Tensor:
        return ranker.represent_many(*(tensor.to(device) for tensor in pad([ids[row] for row in rows]))).cpu()

    parts = []
    for rows in batches([len(sequence) for sequence in ids], BATCH):
        vectors = in_halves(batch, rows, torch.cat).numpy()
        document, term = vectors.nonzero()
        found = np.empty(len(term), dtype=POSTING)
        found["term"], found["document"], found["weight"] = term, rows[document] + start, vectors[document, term]
        parts.append(found)
    postings = np.concatenate(parts)
    return postings[np.lexsort((postings["document"], postings["term"]))]


def _latent(checkpoint: Checkpoint) -> LatentRanker:
    if not isinstance(checkpoint.ranker, LatentRanker):
        raise TypeError(f"{checkpoint.ranker.name()} has no latent vectors")
    return checkpoint.ranker
