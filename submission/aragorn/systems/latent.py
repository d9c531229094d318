"""Retrieve documents by SNRM's latent terms (Zamani et al. 2018, section 3.4)."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aragorn.bounds import Exponent
from aragorn.cache import Parts
from aragorn.engine import LOCAL_ENGINE, Engine, Shard, compute_shards
from aragorn.errors import abbreviate
from aragorn.index.inverted import SparseMatrix, select_top_k, transpose_matrix, write_matrix
from aragorn.pipeline.retrieval import Retrieval
from aragorn.pipeline.session import CheckpointStore, Collection, Session
from aragorn.rankings import MAX_DEPTH, build_rankings
from aragorn.systems.neural import NetworkStage

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from aragorn.inference.checkpoint import RankerCheckpoint
    from aragorn.models.network import LatentRanker

# What imports torch is imported by the functions that compute with it.

log = logging.getLogger(__name__)

VERSION = 1  # of weights and scores
COMPUTES_WITH = ("aragorn.index.inverted", "aragorn.inference.checkpoint", "numpy", "scipy")

# documents per batch; without hidden layers, SNRM convolves each distinct word of a batch once
BATCH_SIZE = 2048
SHARD_SIZE = 4096  # documents per shard


class LatentIndex:
    """Inverted index from latent terms to the documents that contain them, with float32 weights."""

    def __init__(self, directory: Path, n_documents: int) -> None:
        """Open an index that `build_latent_index` has written."""
        self._by_term = SparseMatrix.open(directory, "by_term", np.float32)
        self._n_documents = n_documents
        size = sum(file.stat().st_size for file in directory.iterdir()) / 1e6
        message = "latent index: %d documents, %.2f %% zero weights, %.1f MB"
        log.info(message, n_documents, 100 * self.sparsity, size)

    @property
    def sparsity(self) -> float:
        """Fraction of zeros in the document vectors (Entezari 2020, eq. 3.19)."""
        n_terms = len(self._by_term.count_entries())
        return 1 - len(self._by_term.values) / (self._n_documents * n_terms)

    def score_all(self, query: np.ndarray) -> np.ndarray:
        """Compute the dot products (documents,) float32 with a latent query vector (latent,)."""
        scores = np.zeros(self._n_documents, dtype=np.float32)
        for term in np.flatnonzero(query):
            documents, weights = self._by_term.get_row(int(term))
            scores[documents] += query[term] * weights
        return scores


def search(
    topics: pd.DataFrame, docnos: list[str], checkpoint: RankerCheckpoint, index: LatentIndex
) -> pd.DataFrame:
    """Rank at most `MAX_DEPTH` documents with positive scores per topic.

    `docnos` are ascending; ties go to the first document. A topic without hits gets an empty
    ranking and a warning.
    """
    import torch

    from aragorn.inference.device import use_single_thread
    from aragorn.models.network import pad

    rows: list[tuple[str, str, float]] = []
    ranker = _get_latent_ranker(checkpoint)
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
    return build_rankings(rows)


def build_latent_index(
    directory: Path,
    docnos: list[str],
    load_premises: Callable[[list[str]], pd.DataFrame],
    checkpoint: RankerCheckpoint,
    device: str,
    parts: Parts,
    engine: Engine = LOCAL_ENGINE,
) -> None:
    """Encode documents in shards, and build their index in an existing directory.

    `load_premises` loads `docno premise` by docno, in order; the checkpoint is of a LatentRanker;
    `parts` are finished shards of the same documents, checkpoint and device.
    """
    from scipy.sparse import load_npz

    def make_shard(start: int) -> Shard[list[str]]:
        shard = docnos[start : start + SHARD_SIZE]
        return Shard(f"{start:09}", len(shard), lambda: load_premises(shard)["premise"].tolist())

    shards = [make_shard(start) for start in range(0, len(docnos), SHARD_SIZE)]
    encode = partial(encode_shard, checkpoint, device)
    read_shard = compute_shards(encode, shards, parts, engine, device, "latent index", "documents")
    blocks = (load_npz(io.BytesIO(read_shard(index))) for index in range(len(shards)))
    n_terms = write_matrix(directory, "by_document", blocks)
    by_term = transpose_matrix(directory, "by_document", np.float32, n_terms)
    write_matrix(directory, "by_term", [by_term])
    for file in directory.glob("by_document.*"):
        file.unlink()


def encode_shard(checkpoint: RankerCheckpoint, device: str, premises: list[str]) -> bytes:
    """Compute the latent weights of premises: a sparse matrix (premises, latent) as .npz."""
    import torch
    from scipy.sparse import csr_array, save_npz

    from aragorn.inference.device import map_batches
    from aragorn.models.network import pad

    ids = [checkpoint.tokeniser.encode_premise(premise) for premise in premises]
    ranker = _get_latent_ranker(checkpoint).to(device)

    def encode(rows: np.ndarray) -> Tensor:
        inputs = (tensor.to(device) for tensor in pad([ids[row] for row in rows]))
        return ranker.encode_batch(*inputs).cpu()

    # Mix short and long texts in each batch, so that no thread gets only long ones.
    by_length = np.argsort([len(sequence) for sequence in ids], kind="stable")
    n_batches = -(-len(ids) // BATCH_SIZE)
    batches = [by_length[first::n_batches] for first in range(n_batches)]
    documents = []
    terms = []
    weights = []
    for rows, vectors in zip(batches, map_batches(encode, batches, device, torch.cat), strict=True):
        values = vectors.numpy()
        positions, latent_terms = values.nonzero()
        documents.append(rows[positions])
        terms.append(latent_terms)
        weights.append(values[positions, latent_terms])
    entries = np.concatenate(weights), (np.concatenate(documents), np.concatenate(terms))
    content = io.BytesIO()
    save_npz(content, csr_array(entries, (len(premises), values.shape[1])), compressed=False)
    return content.getvalue()


def _get_latent_ranker(checkpoint: RankerCheckpoint) -> LatentRanker:
    from aragorn.models.network import LatentRanker

    if not isinstance(checkpoint.network, LatentRanker):
        raise TypeError(f"{checkpoint.network.get_name()} is not a latent ranker")
    return checkpoint.network


class LatentParameters(msgspec.Struct, frozen=True):
    """Parameters of SNRM that can be changed without training."""

    length: Exponent  # exponent of the number of windows by which the vector of a text is divided


@dataclass(frozen=True)
class LatentStage(NetworkStage):
    """Retrieval with an inverted index of latent terms (SNRM), with other `parameters` if any."""

    version = 1
    computes_with = (__name__,)
    family = "neural, first stage"
    parameters_type = LatentParameters
    checkpoint: str
    parameters: LatentParameters | None = None

    def load_checkpoint(self, checkpoints: CheckpointStore) -> RankerCheckpoint:
        from aragorn.inference.checkpoint import RankerCheckpoint

        checkpoint = super().load_checkpoint(checkpoints)
        if self.parameters is None:
            return checkpoint
        network = copy(checkpoint.network)
        network.config = replace(network.config, length=self.parameters.length)
        # without its path, because other processes would load the parameters of the checkpoint
        return RankerCheckpoint(
            network, checkpoint.tokeniser, checkpoint.fingerprint, precision=checkpoint.precision
        )

    def describe_checkpoint(self, session: Session) -> str:
        return f"{super().describe_checkpoint(session)} {self.parameters}"

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        """Rank at most `MAX_DEPTH` documents per topic: those with the highest positive scores."""
        checkpoint = self.load_checkpoint(retrieval.session.checkpoints)
        docnos = retrieval.collection.documents.searchable_docnos
        index = self._get_index(retrieval.collection)
        return search(retrieval.topics, docnos, checkpoint, index)

    def build_index(self, collection: Collection) -> None:
        self._get_index(collection)

    def _get_index(self, collection: Collection) -> LatentIndex:
        session = collection.session
        documents = collection.documents
        name = f"index-{self.checkpoint}"

        def describe() -> str:
            return self.describe_results(session)

        def open_parts() -> Parts:
            """Open the shards of the index, which are kept until it is finished."""
            return session.cache.parts(f"{name}-parts", collection.compute_key(describe()))

        def build(directory: Path) -> None:
            build_latent_index(
                directory,
                documents.searchable_docnos,
                documents.read_texts,
                self.load_checkpoint(session.checkpoints),
                session.device,
                open_parts(),
                session.engine,
            )

        def open_index(directory: Path) -> LatentIndex:
            open_parts().remove()
            return LatentIndex(directory, len(documents.searchable_docnos))

        return collection.get_index(name, "latent index", self, describe, build, open_index)
