"""The report's plots."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from training.pictures import figure, png

BETTER, WORSE, NEUTRAL = "#0b6e4f", "#b3261e", "#30638e"


def differences_plot(differences: Mapping[str, pd.Series]) -> bytes:
    """A panel a system: its difference to the baseline in each topic, the best first."""
    columns = 2
    rows = -(-len(differences) // columns)
    drawn = figure(10, 2.1 * rows)
    grid = drawn.subplots(rows, columns, sharey=True, squeeze=False)
    for axes in grid.flat[len(differences) :]:
        axes.set_visible(False)
    for axes, (system, by_topic) in zip(grid.flat, differences.items(), strict=False):
        ordered = by_topic.sort_values(ascending=False)
        axes.bar(range(len(ordered)), ordered, color=[BETTER if value > 0 else WORSE for value in ordered])
        axes.set_title(f"{system}: {(ordered > 0).sum()} topics better, {(ordered < 0).sum()} worse", fontsize=10)
        axes.axhline(0, color="#444444", linewidth=0.8)
        axes.set(ylim=(-1, 1))
        axes.set_xticks(range(len(ordered)), ordered.index, fontsize=6, rotation=90)
        axes.grid(axis="y", alpha=0.3)
    return png(drawn)


def coverage_plot(coverage: pd.DataFrame) -> bytes:
    """By topic, how many documents are relevant, and how many of them are candidates: rows qid, columns `relevant found`."""
    drawn = figure(10, 3)
    axes = drawn.subplots()
    places = range(len(coverage))
    axes.bar(places, coverage["relevant"], color="#c9d5e3", label="relevant documents in the corpus")
    axes.bar(places, coverage["found"], color=NEUTRAL, label="of them among the candidates")
    axes.set_xticks(places, coverage.index, fontsize=7, rotation=90)
    axes.set(xlabel="topic", ylabel="documents")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return png(drawn)
