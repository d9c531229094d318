"""Benchmark of tagging passages in batches, against tagging them one by one and against a target rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from submission.engine.base import CPU
from submission.inference.enricher_checkpoint import load_enricher
from submission.inference.enrichment import annotate_texts
from submission.models.enricher import TokenAnnotation
from submission.paths import CHECKPOINT_DIR
from tests.benchmarks.benchmark import Benchmark, Result, compare
from tests.benchmarks.synthetic_inputs import sample_premises

TEXTS = 512  # maximum number of premises
TARGET_RATE = 15_000  # words per second
TASK = f"targer: the words of {TEXTS} premises, CPU"
Tags = Sequence[Sequence[TokenAnnotation]]  # by passage and word


def build_benchmark(directory: Path) -> Benchmark:
    """Build the benchmark of the shipped tagger; both sides split texts into passages and tag every word."""
    texts = sample_premises(directory, TEXTS)
    checkpoint = load_enricher(CHECKPOINT_DIR / "targer_essays")
    tagger, surface_reader = checkpoint.network, checkpoint.tokeniser
    word_count = sum(len(passage) for text in texts for passage in surface_reader.split(text))

    def tag() -> Sequence[Tags]:
        return annotate_texts(texts, checkpoint, CPU)

    @torch.inference_mode()
    def tag_one_by_one() -> Sequence[Tags]:
        return [[tagger.annotate([passage])[0] for passage in surface_reader.split(text)] for text in texts]

    return Benchmark("targer", TASK, "passage by passage", "words", word_count, tag, tag_one_by_one, 1.5)


def measure(directory: Path, repetitions: int) -> list[Result]:
    """Compare the measured rate with the baseline and with the target."""
    benchmark = build_benchmark(directory)
    result = compare(benchmark, repetitions)
    rate = benchmark.units / float(np.median(result.seconds["ours"]))
    return [result, Result("targer words", TASK, "target", result.ours, f"{TARGET_RATE:,} words/s", rate / TARGET_RATE, 1)]
