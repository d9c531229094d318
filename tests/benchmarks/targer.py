"""TARGER's tagger: many passages at a time against one after the other, and the words a second that are asked for."""

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
from tests.benchmarks.synthetic_inputs import collection_of

TEXTS = 512  # at most: evenly spread over the collection
ASKED = 15_000  # words a second


def tagging(directory: Path) -> Benchmark:
    """The shipped tagger; both sides begin with texts and give every word its tag."""
    premises = collection_of(directory)["premise"].tolist()
    texts = [premises[row] for row in np.unique(np.linspace(0, len(premises) - 1, TEXTS).astype(int))]
    opened = load_enricher(CHECKPOINT_DIR / "targer_essays")
    tagger, reader = opened.enricher, opened.tokeniser

    @torch.inference_mode()
    def one_by_one() -> Sequence[Sequence[Sequence[TokenAnnotation]]]:
        return [[tagger.annotate([passage])[0] for passage in reader.split(text)] for text in texts]

    return Benchmark(
        name="targer",
        against="passage by passage",
        unit="words",
        units=sum(len(passage) for text in texts for passage in reader.split(text)),
        ours=lambda: annotate_texts(texts, opened, torch.device("cpu")),
        baseline=one_by_one,
    )


def results(directory: Path, repetitions: int) -> list[Result]:
    """One measurement, against either."""
    benchmark = tagging(directory)
    what = f"targer: the words of {TEXTS} premises tagged, CPU"
    found = compare(benchmark, what, 1.5, repetitions)
    rate = benchmark.units / float(np.median(found.seconds["ours"]))
    return [found, Result("targer words", what, "what is asked for", found.ours, f"{ASKED:,} words/s", rate / ASKED, 1)]
