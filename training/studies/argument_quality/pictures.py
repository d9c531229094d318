"""Plot a network's scores against the number of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from training.plotting import new_figure, to_png

N_COLUMNS = 3
PANEL_INCHES = 3.3  # width and height of a panel


class Panel(NamedTuple):
    """Word counts, scores and quality percentiles (arguments,) of a data set."""

    title: str
    words: np.ndarray
    scores: np.ndarray
    quality: np.ndarray


def plot_scores_by_length(panels: Sequence[Panel]) -> bytes:
    """Plot one panel per data set and one point per argument; darker is better."""
    rows = -(-len(panels) // N_COLUMNS)
    fig = new_figure(PANEL_INCHES * N_COLUMNS, PANEL_INCHES * rows)
    grid = fig.subplots(rows, N_COLUMNS, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.scatter(panel.words, panel.scores, c=panel.quality, cmap="viridis_r", s=4, linewidths=0)
        axes.set_xscale("log")
        correlation = spearmanr(panel.words, panel.scores).statistic
        axes.set_title(f"{panel.title}: Spearman {correlation:.2f}", fontsize=9)
        axes.set(xlabel="words", ylabel="score")
        axes.grid(alpha=0.3)
    return to_png(fig)
