"""The learning curve: loss above, validation below, the best MAP marked (thesis, figures 4.2-4.5)."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from submission.files import write_whole

COLOURS = {"MRR@20": "#d1495b", "MAP@20": "#30638e", "nDCG@20": "#3c8d5a"}


def draw(file: Path, title: str, rows: list[dict[str, float]]) -> None:
    """Draw the rows of a training log (epoch, loss, MRR@20, MAP@20, nDCG@20 in percent) as PNG."""
    figure = Figure(figsize=(7, 6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    epochs = [row["epoch"] for row in rows]
    above.plot(epochs, [row["loss"] for row in rows], color="#444444", marker=".")
    above.set(title=title, ylabel="pairwise hinge loss", ylim=(0, None))
    for name, colour in COLOURS.items():
        below.plot(epochs, [row[name] for row in rows], color=colour, marker=".", label=name)
    best = max(rows, key=lambda row: row["MAP@20"])
    label = f"best MAP@20: {best['MAP@20']:.1f} at epoch {best['epoch']:.2f}"
    below.plot(best["epoch"], best["MAP@20"], "o", color="blue", markersize=8, label=label)
    below.set(xlabel="epoch", ylabel="percent, 5 + 100 premises a query")
    below.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, columnspacing=1.2, handletextpad=0.4)
    for axes in (above, below):
        axes.grid(alpha=0.3)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110, metadata={"Software": None})
    write_whole(file, content.getvalue())
