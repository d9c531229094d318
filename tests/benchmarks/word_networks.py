"""Benchmarks of scoring pairs of token ids, against a forward pass over padded batches of 32 pairs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from submission.inference.pair_scoring import TokenSource, score_documents
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.padding import pad
from submission.models.ranker import LatentRanker
from submission.paths import CHECKPOINT_DIR
from submission.storage.artifact_store import ArtifactStore
from submission.systems.catalogue import CONCLUSION_BM25
from submission.text.tokenisers import Tokeniser
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import load_collection, open_execution

BATCH_SIZE = 32
BASELINE = f"forward pass over padded batches of {BATCH_SIZE}"
CPU = torch.device("cpu")
DOCUMENTS = 1024  # number of documents for SNRM's index; the baseline takes 30 s


@dataclass(frozen=True)
class TokenIds(TokenSource):
    """Token ids of queries and premises, precomputed to keep tokenisation out of the measured time."""

    queries: dict[str, list[int]]
    premises: dict[str, np.ndarray]

    def get_query_ids(self, tokeniser: Tokeniser) -> dict[str, list[int]]:
        return self.queries

    def get_premise_ids(self, tokeniser: Tokeniser, docnos: Iterable[str]) -> dict[str, np.ndarray]:
        return self.premises


def load_candidates(directory: Path, tokeniser: Tokeniser) -> tuple[pd.DataFrame, TokenIds]:
    """Load the candidates that the networks score for an input, and the token ids of their texts."""
    with open_execution(directory) as execution:
        candidates, tokens = execution.get_ranking(CONCLUSION_BM25), execution.tokens
        premises = tokens.get_premise_ids(tokeniser, candidates["docno"])
        return candidates, TokenIds(tokens.get_query_ids(tokeniser), premises)


def build_benchmark(name: str, directory: Path) -> Benchmark:
    """Build the benchmark of a word network.

    Raises:
        AssertionError: If the scores differ from the baseline's by more than 1e-5.
    """
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    candidates, ids = load_candidates(directory, checkpoint.tokeniser)
    queries, premises = ids.queries, ids.premises
    pairs = list(zip(candidates["qid"], candidates["docno"], strict=True))

    @torch.inference_mode()
    def baseline() -> Tensor:
        scores = []
        for start in range(0, len(pairs), BATCH_SIZE):
            batch = pairs[start : start + BATCH_SIZE]
            scores.append(
                checkpoint.network(*pad([queries[qid] for qid, _ in batch]), *pad([premises[docno] for _, docno in batch]))
            )
        return torch.cat(scores)

    def ours() -> Tensor:
        with tempfile.TemporaryDirectory() as folder:  # a new cache in each round
            return torch.from_numpy(score_documents(candidates, ids, checkpoint, CPU, ArtifactStore(Path(folder), {})))

    _check_equal(ours(), baseline(), 1e-5)
    return Benchmark(name, BASELINE, "pairs", len(pairs), ours, baseline)


def build_gpu_benchmark(name: str, directory: Path) -> Benchmark:
    """Build the benchmark of a BERT network on a GPU, against float32 with batches of 32 pairs padded to the maximum length."""
    cuda = torch.device("cuda")
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    lengths = checkpoint.tokeniser.lengths
    candidates, ids = load_candidates(directory, checkpoint.tokeniser)
    pairs = list(zip(candidates["qid"], candidates["docno"], strict=True))
    float32_network = deepcopy(checkpoint.network).to(cuda)

    def pad_to(texts: Sequence[Sequence[int] | np.ndarray], length: int) -> list[Tensor]:
        return [functional.pad(tensor, (0, length - tensor.shape[1])).to(cuda) for tensor in pad(texts)]

    @torch.inference_mode()
    def baseline() -> Tensor:
        scores = []
        for start in range(0, len(pairs), BATCH_SIZE):
            batch = pairs[start : start + BATCH_SIZE]
            query = pad_to([ids.queries[qid] for qid, _ in batch], lengths.query)
            scores.append(float32_network(*query, *pad_to([ids.premises[docno] for _, docno in batch], lengths.premise)))
        return torch.cat(scores).cpu()

    def ours() -> Tensor:
        with tempfile.TemporaryDirectory() as folder:
            return torch.from_numpy(score_documents(candidates, ids, checkpoint, cuda, ArtifactStore(Path(folder), {})))

    _check_equal(ours(), baseline(), 0.1)
    return Benchmark(f"{name} gpu", f"float32, padded batches of {BATCH_SIZE}", "pairs", len(pairs), ours, baseline)


def build_snrm_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark of computing document vectors for SNRM's index, against the network's forward pass."""
    checkpoint, collection = load_checkpoint(CHECKPOINT_DIR / "snrm"), load_collection(directory)
    premises = (collection["premise"].tolist() * (1 + DOCUMENTS // len(collection)))[:DOCUMENTS]
    ids = [np.array(checkpoint.tokeniser.encode_premise(text), dtype=np.int32) for text in premises]
    ranker = checkpoint.network
    assert isinstance(ranker, LatentRanker)

    @torch.inference_mode()
    def encode(forward: Callable[..., Tensor], size: int, n: int) -> Tensor:
        return torch.cat([forward(*pad(ids[start : min(start + size, n)])) for start in range(0, n, size)])

    ours, baseline = partial(encode, ranker.encode_batch, 2048), partial(encode, ranker.encode, BATCH_SIZE)
    _check_equal(ours(256), baseline(256), 1e-5)
    return Benchmark("snrm index", BASELINE, "documents", DOCUMENTS, partial(ours, DOCUMENTS), partial(baseline, DOCUMENTS))


def _check_equal(ours: Tensor, baseline: Tensor, tolerance: float) -> None:
    difference = ((ours - baseline).abs() / baseline.abs().clamp(min=1)).max().item()
    if not difference <= tolerance:
        raise AssertionError(f"scores differ from the baseline by {difference:g}, more than {tolerance:g}")
