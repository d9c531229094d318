"""bfloat16 against float32 where whole collections are encoded: DeepCT's documents and SBERT's premises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from submission.inference.checkpoint_io import set_precision
from submission.inference.device import choose_precision, on_device
from submission.inference.enricher_checkpoint import load_enricher
from submission.inference.enrichment import enrich_texts
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.rankers.sbert import SBERT
from submission.paths import CHECKPOINT_DIR
from submission.retrieval.dense import encode_texts
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import collection_of

DOCUMENTS, PREMISES = 200, 512  # at most: evenly spread over the collection
CPU = torch.device("cpu")


def halves(directory: Path) -> list[Benchmark]:
    """Checkpoints are opened once for each precision. Raises UsageError: this processor does not compute in bfloat16."""
    premises = collection_of(directory)["premise"].tolist()
    return [
        _benchmark("deepct", "documents", _spread(premises, DOCUMENTS), _deepct),
        _benchmark("sbert", "premises", _spread(premises, PREMISES), _sbert),
    ]


def _benchmark(
    name: str, unit: str, texts: list[str], way: Callable[[list[str], torch.dtype | None], Callable[[], object]]
) -> Benchmark:
    half = choose_precision("bfloat16", CPU)
    return Benchmark(name, "float32", unit, len(texts), ours=way(texts, half), baseline=way(texts, None))


def _deepct(texts: list[str], precision: torch.dtype | None) -> Callable[[], object]:
    opened = set_precision(load_enricher(CHECKPOINT_DIR / "deepct"), precision)
    return lambda: enrich_texts(texts, opened, CPU)


def _sbert(texts: list[str], precision: torch.dtype | None) -> Callable[[], object]:
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "sbert")
    ids = [checkpoint.tokeniser.encode_premise(text) for text in texts]
    ranker = on_device(checkpoint.ranker, CPU, precision)
    assert isinstance(ranker, SBERT)
    return lambda: encode_texts(ids, ranker, CPU, precision)


def _spread(texts: list[str], most: int) -> list[str]:
    return [texts[row] for row in np.unique(np.linspace(0, len(texts) - 1, most).astype(int))]
