"""Benchmarks of bfloat16 against float32: encoding documents with DeepCT, and premises with SBERT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from submission.inference.device import choose_precision, move_to_device
from submission.inference.enricher_checkpoint import load_enricher
from submission.inference.enrichment import enrich_texts
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.rankers.sbert import SBERT
from submission.paths import CHECKPOINT_DIR
from submission.retrieval.dense import encode_texts
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import sample_premises

DOCUMENTS, PREMISES = 200, 512  # maximum numbers of texts
CPU = torch.device("cpu")


def build_benchmarks(directory: Path) -> list[Benchmark]:
    """Build a benchmark for each of the two encoders.

    Raises:
        UsageError: If the processor does not support bfloat16.
    """
    bfloat16 = choose_precision("bfloat16", CPU)
    return [
        Benchmark(name, "float32", unit, len(texts), ours=build_encoder(texts, bfloat16), baseline=build_encoder(texts, None))
        for name, unit, texts, build_encoder in (
            ("deepct", "documents", sample_premises(directory, DOCUMENTS), _build_deepct_encoder),
            ("sbert", "premises", sample_premises(directory, PREMISES), _build_sbert_encoder),
        )
    ]


def _build_deepct_encoder(texts: list[str], precision: torch.dtype | None) -> Callable[[], object]:
    checkpoint = replace(load_enricher(CHECKPOINT_DIR / "deepct"), precision=precision)
    return lambda: enrich_texts(texts, checkpoint, CPU)


def _build_sbert_encoder(texts: list[str], precision: torch.dtype | None) -> Callable[[], object]:
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "sbert")
    ids = [checkpoint.tokeniser.encode_premise(text) for text in texts]
    ranker = move_to_device(checkpoint.network, CPU, precision)
    assert isinstance(ranker, SBERT)
    return lambda: encode_texts(ids, ranker, CPU, precision)
