"""Plot a network's scores against the number of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from training.pictures import figure, png

COLUMNS = 3
INCHES = 3.3  # a panel's width and height


class Panel(NamedTuple):
    """The arguments of a data set: words, scores and quality, (arguments,) each; quality up to 1, the best of its list."""

    title: str
    words: np.ndarray
    scores: np.ndarray
    quality: np.ndarray


def length_plot(panels: Sequence[Panel]) -> bytes:
    """A panel a data set, a point an argument; the darker, the better it was judged."""
    rows = -(-len(panels) // COLUMNS)
    drawn = figure(INCHES * COLUMNS, INCHES * rows)
    grid = drawn.subplots(rows, COLUMNS, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.scatter(panel.words, panel.scores, c=panel.quality, cmap="viridis_r", s=4, linewidths=0)
        axes.set_xscale("log")
        correlation = spearmanr(panel.words, panel.scores).statistic
        axes.set_title(f"{panel.title}: Spearman {correlation:.2f}", fontsize=9)
        axes.set(xlabel="words", ylabel="score")
        axes.grid(alpha=0.3)
    return png(drawn)
