"""Plot evaluation results, and create figures in one style as reproducible PNGs."""

import io
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

PNG_SIGNATURE = rb"\x89PNG\r\n"
NEUTRAL = "#30638e"
BETTER = "#0b6e4f"
WORSE = "#b3261e"


def create_figure(width: float, height: float) -> Figure:
    """Create an empty figure, `width` by `height` inches, that needs no display."""
    fig = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig


def render_png(fig: Figure) -> bytes:
    """Render a figure as PNG at 110 dpi, without metadata that name matplotlib's version."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def plot_grid(table: pd.DataFrame, axes: Sequence[str], measure: str) -> bytes:
    """Plot a measure over one axis as a curve, or over two in heat maps per value of others."""
    if len(axes) == 1:
        fig = create_figure(8, 3.5)
        ax = fig.subplots()
        ax.plot(table[axes[0]], table[measure], color=NEUTRAL, marker=".")
        ax.set(xlabel=axes[0], ylabel=measure)
        ax.grid(alpha=0.3)
        return render_png(fig)
    # The two parameters with the most values span the heat maps.
    *panel_axes, rows, columns = sorted(axes, key=lambda name: table[name].nunique())
    groups = list(table.groupby(panel_axes)) if panel_axes else [((), table)]
    n_columns = table[panel_axes[-1]].nunique() if panel_axes else 1
    n_rows = -(-len(groups) // n_columns)
    width = max(3.4, 0.42 * table[columns].nunique())  # room for the tick labels
    fig = create_figure(width * n_columns + 1, 3.2 * n_rows)
    grid = fig.subplots(n_rows, n_columns, squeeze=False)
    for ax, (setting, group) in zip(grid.flat, groups, strict=True):
        values = group.pivot(index=rows, columns=columns, values=measure)
        limits = {"vmin": table[measure].min(), "vmax": table[measure].max()}
        image = ax.imshow(values, cmap="viridis", aspect="auto", **limits)
        ax.set_xticks(range(values.shape[1]), [f"{value:g}" for value in values.columns])
        ax.set_yticks(range(values.shape[0]), [f"{value:g}" for value in values.index])
        title = ", ".join(
            f"{name} {value:g}" for name, value in zip(panel_axes, setting, strict=True)
        )
        ax.set(xlabel=columns, ylabel=rows, title=title)
    fig.colorbar(image, ax=list(grid.flat), label=measure)
    return render_png(fig)


def plot_ablation(table: pd.DataFrame) -> bytes:
    """Plot the difference (with interval) from removing each feature; largest loss on top."""
    measures = table["measure"].unique()
    fig = create_figure(5 * len(measures), 1 + 0.35 * table["removed_feature"].nunique())
    grid = fig.subplots(1, len(measures), squeeze=False)
    for ax, measure in zip(grid.flat, measures, strict=True):
        rows = table[table["measure"] == measure].sort_values("difference", ascending=False)
        positions = range(len(rows))
        colours = np.where(rows["difference"] < 0, WORSE, BETTER)
        ax.barh(positions, rows["difference"], color=colours, alpha=0.5)
        ax.hlines(positions, rows["ci_low"], rows["ci_high"], color="black", linewidth=1.5)
        ax.set_yticks(positions, "without " + rows["removed_feature"], fontsize=8)
        ax.axvline(0, color="#444444", linewidth=0.8)
        ax.set(xlabel=f"difference in {measure}")
        ax.locator_params(axis="x", nbins=6)
        ax.grid(axis="x", alpha=0.3)
    return render_png(fig)
