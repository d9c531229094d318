"""Statistics of the data as in the thesis: set sizes, frequent conclusions, vocabularies, lengths (figures 3.1, 3.2, 4.1)."""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from submission.disk.kept import Kept
from training.data.work import write_text
from training.pictures import figure, png

log = logging.getLogger(__name__)

FREQUENT = 20


def write_statistics(work: Kept, train: pd.DataFrame, validation: pd.DataFrame) -> None:
    """Write statistics.json and two histograms of the lengths, and log the numbers."""
    conclusions = pd.concat([train["normalised_conclusion"], validation["normalised_conclusion"]])
    unique = conclusions.unique()
    conclusion_lengths = np.array([len(text.split()) for text in unique])
    premise_lengths, vocabulary = _premises(work.directory)
    counts = conclusions.value_counts()
    numbers = {
        "arguments": len(conclusions),
        "train arguments": len(train),
        "validation arguments": len(validation),
        "validation queries": validation["normalised_conclusion"].nunique(),
        "unique normalised conclusions": len(unique),
        "vocabulary of conclusions": len({term for text in unique for term in text.split()}),
        "vocabulary of premises": vocabulary,
        "mean words a conclusion": round(float(conclusion_lengths.mean()), 2),
        "mean words a premise": round(float(premise_lengths.mean()), 1),
        "median words a premise": float(np.median(premise_lengths)),
        "share of premises under 200 words": round(float((premise_lengths < 200).mean()), 3),
        "most frequent conclusions": dict(sorted(counts.head(FREQUENT).items(), key=lambda item: (-item[1], item[0]))),
    }
    for name, value in numbers.items():
        log.info("%s: %s", name, value)
    text = json.dumps(numbers, indent=1, ensure_ascii=False) + "\n"
    work.make(["statistics.json"], partial(write_text, text))
    conclusions_label, premises_label = "words in a unique normalised conclusion", "words in a premise"
    work.make(["conclusion-lengths.png"], partial(_histogram, conclusion_lengths, conclusions_label, 20))
    work.make(["premise-lengths.png"], partial(_histogram, premise_lengths, premises_label, 1750))


def _premises(directory: Path) -> tuple[np.ndarray, int]:
    """Whitespace words of each premise as written, and how many distinct ones the word form has."""
    lengths: list[int] = []
    terms: set[str] = set()
    for split in ("train", "validation"):
        for batch in pq.ParquetFile(directory / f"{split}.pieces.parquet").iter_batches(2_000, columns=["premise"]):
            lengths += [len(text.split()) for text in batch["premise"].to_pylist()]
        for batch in pq.ParquetFile(directory / f"{split}.words.parquet").iter_batches(2_000, columns=["premise"]):
            terms.update(*(text.split() for text in batch["premise"].to_pylist()))
    return np.array(lengths), len(terms)


def _histogram(lengths: np.ndarray, label: str, longest: int, file: Path) -> None:
    drawn = figure(7, 4)
    axes = drawn.add_subplot(xlabel=label, ylabel="number", title=f"{len(lengths)} in all, mean {lengths.mean():.1f}")
    edges = np.linspace(0.5, longest + 0.5, min(longest, 70) + 1)  # few lengths: a bar each, over its number
    axes.hist(np.minimum(lengths, longest), bins=edges.tolist(), color="#30638e", rwidth=0.95)
    beyond = int((lengths > longest).sum())
    if beyond:
        axes.text(
            0.98,
            0.95,
            f"{beyond} longer than {longest} in the last bar",
            transform=axes.transAxes,
            ha="right",
            va="top",
        )
    file.write_bytes(png(drawn))
