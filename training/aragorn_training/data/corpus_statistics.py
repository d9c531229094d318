"""Compute and plot corpus statistics as in Entezari 2020 (figures 3.1, 3.2, 4.1)."""

import json
import logging
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.storage.recorded_files import RecordedFiles
from aragorn_training.data.work_directory import iter_rows
from aragorn_training.evaluation.plots import NEUTRAL, create_figure, render_png

log = logging.getLogger(__name__)

N_TOP_CONCLUSIONS = 20


def write_statistics(tables: RecordedFiles, train: pd.DataFrame, validation: pd.DataFrame) -> None:
    """Log statistics of the arguments; add statistics.json and two histograms to the tables."""
    conclusions = pd.concat([train["normalised_conclusion"], validation["normalised_conclusion"]])
    unique_conclusions = conclusions.unique()
    conclusion_lengths = np.array([len(text.split()) for text in unique_conclusions])
    premise_lengths, vocabulary_size = _measure_premises(tables.directory)
    top_counts = conclusions.value_counts().head(N_TOP_CONCLUSIONS)
    statistics = {
        "arguments": len(conclusions),
        "train arguments": len(train),
        "validation arguments": len(validation),
        "validation queries": validation["normalised_conclusion"].nunique(),
        "unique normalised conclusions": len(unique_conclusions),
        "vocabulary of conclusions": len({*" ".join(unique_conclusions).split()}),
        "vocabulary of premises": vocabulary_size,
        "mean words per conclusion": round(float(conclusion_lengths.mean()), 2),
        "mean words per premise": round(float(premise_lengths.mean()), 1),
        "median words per premise": float(np.median(premise_lengths)),
        "share of premises under 200 words": round(float((premise_lengths < 200).mean()), 3),
        "most frequent conclusions": dict(
            sorted(top_counts.items(), key=lambda item: (-item[1], item[0]))
        ),
    }
    for name, value in statistics.items():
        if isinstance(value, dict):
            value = ", ".join(f"{text} ({count})" for text, count in value.items())
        log.info("%s: %s", name, value)
    content = json.dumps(statistics, indent=1, ensure_ascii=False) + "\n"
    tables.build(["statistics.json"], lambda file: file.write_text(content, encoding="utf-8"))
    for name, lengths, label, max_length in (
        ("conclusion", conclusion_lengths, "words per unique normalised conclusion", 20),
        ("premise", premise_lengths, "words per premise", 1750),
    ):
        tables.build([f"{name}-lengths.png"], partial(_plot_histogram, lengths, label, max_length))


def _measure_premises(directory: Path) -> tuple[np.ndarray, int]:
    """Return the word counts (arguments,) of the premises and the number of distinct words."""
    lengths: list[int] = []
    terms: set[str] = set()
    for split in ("train", "validation"):
        for row in iter_rows(directory / f"{split}.pieces.parquet", ["premise"], directory):
            lengths.append(len(row["premise"].split()))
        for row in iter_rows(directory / f"{split}.words.parquet", ["premise"], directory):
            terms.update(row["premise"].split())
    return np.array(lengths), len(terms)


def _plot_histogram(lengths: np.ndarray, label: str, max_length: int, file: Path) -> None:
    """Write a histogram of text lengths (words) as PNG; its last bar counts all longer texts."""
    fig = create_figure(7, 4)
    axes = fig.add_subplot(
        xlabel=label, ylabel="count", title=f"n = {len(lengths)}, mean {lengths.mean():.1f}"
    )
    # one bar per length if `max_length` is small
    edges = np.linspace(0.5, max_length + 0.5, min(max_length, 70) + 1)
    axes.hist(np.minimum(lengths, max_length), bins=edges.tolist(), color=NEUTRAL, rwidth=0.95)
    if overflow := int((lengths > max_length).sum()):
        text = f"last bar includes {overflow} texts of over {max_length} words"
        axes.text(0.98, 0.95, text, transform=axes.transAxes, ha="right", va="top")
    file.write_bytes(render_png(fig))
