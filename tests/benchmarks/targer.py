"""TARGER's tagger: many passages at a time against one after the other, and the words a second that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from submission.enrichment.base import Word
from submission.enrichment.checkpoint import EnricherCheckpoint
from submission.enrichment.read import read
from submission.enrichment.targer import TARGER
from submission.input.directory import Input
from submission.text.vocabulary import Vocabulary
from submission.text.written import WrittenReader, forms
from tests.benchmarks.measure import Benchmark, Result, compare
from training.data.conll import tags_of

TEXTS = 512  # at most: evenly spread over the collection
ASKED = 15_000  # words a second


def tagging(directory: Path) -> Benchmark:
    """A network of the recipes' sizes that learned nothing; both sides begin with texts and give every word its tag."""
    premises = Input(directory).collection["premise"].tolist()
    texts = [premises[row] for row in np.unique(np.linspace(0, len(premises) - 1, TEXTS).astype(int))]
    vocabulary = Vocabulary(sorted({form for text in premises for form in forms(text)}))
    torch.manual_seed(0)
    tagger = TARGER(TARGER.Config(len(vocabulary), tags_of(("essays",)))).eval()
    reader = WrittenReader(vocabulary, tagger.config.longest)
    opened = EnricherCheckpoint(tagger, reader, "")

    @torch.inference_mode()
    def one_by_one() -> Sequence[Sequence[Sequence[Word]]]:
        return [[tagger.words([passage])[0] for passage in reader.passages(text)] for text in texts]

    return Benchmark(
        name="targer",
        against="passage by passage",
        unit="words",
        units=sum(len(passage) for text in texts for passage in reader.passages(text)),
        ours=lambda: read(texts, opened, torch.device("cpu")),
        baseline=one_by_one,
    )


def results(directory: Path, repetitions: int) -> list[Result]:
    """One measurement, against either."""
    benchmark = tagging(directory)
    what = f"targer: the words of {TEXTS} premises tagged, CPU"
    found = compare(benchmark, what, 1.5, repetitions)
    rate = benchmark.units / float(np.median(found.seconds["ours"]))
    return [found, Result("targer words", what, "what is asked for", found.ours, f"{ASKED:,} words/s", rate / ASKED, 1)]
