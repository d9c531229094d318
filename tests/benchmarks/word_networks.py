"""Word networks on all topics' candidates, from ids to scores, against their own forward over padded batches of 32."""

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

from submission.inference.pair_scoring import score
from submission.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from submission.inference.token_ids import TokenSource
from submission.models.padding import pad
from submission.models.ranker import LatentRanker
from submission.paths import CHECKPOINT_DIR
from submission.storage.artifact_store import ArtifactStore
from submission.systems.catalogue import CONCLUSION_BM25
from submission.text.tokenisers import Tokeniser
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import collection_of, execution

BATCH = 32
AGAINST = f"its forward over padded batches of {BATCH}"
CPU = torch.device("cpu")
DOCUMENTS = 1024  # of an index: a part of it; the baseline takes half a minute for them


@dataclass(frozen=True)
class Ids(TokenSource):
    """Texts that are ids already: what is measured begins there on both sides."""

    of_topics: dict[str, list[int]]
    of_premises: dict[str, np.ndarray]

    def get_query_ids(self, tokeniser: Tokeniser) -> dict[str, list[int]]:
        return self.of_topics

    def get_premise_ids(self, tokeniser: Tokeniser, docnos: Iterable[str]) -> dict[str, np.ndarray]:
        return self.of_premises


def candidates_of(directory: Path, tokeniser: Tokeniser) -> tuple[pd.DataFrame, Ids]:
    """The networks' candidates on an input, and their texts' ids."""
    with execution(directory) as running:
        candidates = running.get_ranking(CONCLUSION_BM25)
        return candidates, Ids(
            running.tokens.get_query_ids(tokeniser), running.tokens.get_premise_ids(tokeniser, candidates["docno"])
        )


def scoring(name: str, directory: Path) -> Benchmark:
    """Scores of all candidates.

    Raises:
        AssertionError: the two sides differ.
    """
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    candidates, ids = candidates_of(directory, checkpoint.tokeniser)
    queries, premises = ids.of_topics, ids.of_premises
    pairs = list(zip(candidates["qid"], candidates["docno"], strict=True))

    @torch.inference_mode()
    def baseline() -> Tensor:
        scores = []
        for start in range(0, len(pairs), BATCH):
            batch = pairs[start : start + BATCH]
            scores.append(checkpoint.ranker(*pad([queries[q] for q, _ in batch]), *pad([premises[d] for _, d in batch])))
        return torch.cat(scores)

    def ours() -> Tensor:
        with tempfile.TemporaryDirectory() as folder:  # nothing is kept from one round to the next
            return torch.from_numpy(score(candidates, ids, checkpoint, CPU, ArtifactStore(Path(folder), {})))

    _refuse_other(ours(), baseline(), 1e-5)
    return Benchmark(name, AGAINST, "pairs", len(pairs), ours, baseline)


def on_gpu(name: str, directory: Path) -> Benchmark:
    """A BERT network on a GPU against itself in float32, batches of 32 padded to the longest there can be. Needs CUDA."""
    cuda = torch.device("cuda")
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    lengths = checkpoint.tokeniser.lengths
    candidates, ids = candidates_of(directory, checkpoint.tokeniser)
    pairs = list(zip(candidates["qid"], candidates["docno"], strict=True))
    plain = deepcopy(checkpoint.ranker).to(cuda)

    def padded(texts: Sequence[Sequence[int] | np.ndarray], length: int) -> list[Tensor]:
        return [functional.pad(tensor, (0, length - tensor.shape[1])).to(cuda) for tensor in pad(texts)]

    @torch.inference_mode()
    def baseline() -> Tensor:
        scores = []
        for start in range(0, len(pairs), BATCH):
            batch = pairs[start : start + BATCH]
            query = padded([ids.of_topics[qid] for qid, _ in batch], lengths.query)
            scores.append(plain(*query, *padded([ids.of_premises[docno] for _, docno in batch], lengths.premise)))
        return torch.cat(scores).cpu()

    def ours() -> Tensor:
        with tempfile.TemporaryDirectory() as folder:
            return torch.from_numpy(score(candidates, ids, checkpoint, cuda, ArtifactStore(Path(folder), {})))

    _refuse_other(ours(), baseline(), 0.1)
    return Benchmark(f"{name} gpu", f"float32, padded batches of {BATCH}", "pairs", len(pairs), ours, baseline)


def snrm_index(directory: Path) -> Benchmark:
    """The vectors of documents for an index; texts are ids already on neither side."""
    checkpoint, collection = load_checkpoint(CHECKPOINT_DIR / "snrm"), collection_of(directory)
    premises = (collection["premise"].tolist() * (1 + DOCUMENTS // len(collection)))[:DOCUMENTS]
    ids = [np.array(checkpoint.tokeniser.encode_premise(text), dtype=np.int32) for text in premises]
    ranker = _latent(checkpoint)

    @torch.inference_mode()
    def in_batches(represent: Callable[..., Tensor], size: int, number: int) -> Tensor:
        return torch.cat([represent(*pad(ids[start : min(start + size, number)])) for start in range(0, number, size)])

    ours, baseline = partial(in_batches, ranker.encode_batch, 2048), partial(in_batches, ranker.encode, BATCH)
    _refuse_other(ours(256), baseline(256), 1e-5)
    return Benchmark("snrm index", AGAINST, "documents", DOCUMENTS, partial(ours, DOCUMENTS), partial(baseline, DOCUMENTS))


def _latent(checkpoint: RankerCheckpoint) -> LatentRanker:
    assert isinstance(checkpoint.ranker, LatentRanker)
    return checkpoint.ranker


def _refuse_other(ours: Tensor, baseline: Tensor, tolerance: float) -> None:
    difference = ((ours - baseline).abs() / baseline.abs().clamp(min=1)).max().item()
    if not difference <= tolerance:
        raise AssertionError(f"the two sides differ by {difference}")
