"""Benchmark of tagging passages in batches, against tagging them one by one and against a target rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from submission.inference.enricher_checkpoint import load_enricher
from submission.inference.enrichment import annotate_texts
from submission.models.enricher import TokenAnnotation
from submission.paths import CHECKPOINT_DIR
from tests.benchmarks.benchmark import Benchmark, Result, compare
from tests.benchmarks.synthetic_inputs import sample_premises

TEXTS = 512  # maximum number of premises
TARGET_RATE = 15_000  # words per second


def build_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark of the shipped tagger; both sides split texts into passages and tag every word."""
    texts = sample_premises(directory, TEXTS)
    checkpoint = load_enricher(CHECKPOINT_DIR / "targer_essays")
    tagger, surface_reader = checkpoint.network, checkpoint.tokeniser

    @torch.inference_mode()
    def tag_one_by_one() -> Sequence[Sequence[Sequence[TokenAnnotation]]]:
        return [[tagger.annotate([passage])[0] for passage in surface_reader.split(text)] for text in texts]

    return Benchmark(
        name="targer",
        baseline_name="passage by passage",
        unit="words",
        units=sum(len(passage) for text in texts for passage in surface_reader.split(text)),
        ours=lambda: annotate_texts(texts, checkpoint, torch.device("cpu")),
        baseline=tag_one_by_one,
    )


def measure(directory: Path, repetitions: int) -> list[Result]:
    """Compare the measured rate with the baseline and with the target."""
    benchmark = build_benchmark(directory)
    task = f"targer: the words of {TEXTS} premises, CPU"
    result = compare(benchmark, task, 1.5, repetitions)
    rate = benchmark.units / float(np.median(result.seconds["ours"]))
    return [result, Result("targer words", task, "target", result.ours, f"{TARGET_RATE:,} words/s", rate / TARGET_RATE, 1)]
