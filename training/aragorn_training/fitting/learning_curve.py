"""Plot learning curves: loss, validation metrics and sparsity (Entezari 2020, figures 4.2-4.9)."""

from dataclasses import dataclass

from aragorn_training.evaluation.plots import create_figure, render_png

COLOURS = ("#d1495b", "#30638e", "#3c8d5a")
# latent networks only
SPARSITY_COLOURS = {"query sparsity": "#7b4b94", "document sparsity": "#c98b1b"}


@dataclass(frozen=True)
class CurveSpec:
    """Labels of a task's learning curve, and the rule that selects a network from the log."""

    loss_label: str
    measures: tuple[str, str, str]  # validation metrics to plot
    selection_metric: str  # selects the checkpoint, unless `keep_last`
    metric_label: str  # axis label of the metrics
    validation_unit: str  # unit of the validation items, plural
    keep_last: bool = False  # select the last network, not the best

    def select(self, rows: list[dict[str, float]]) -> dict[str, float]:
        """Return the log row of the selected network: the (first) best, or the last."""
        return rows[-1] if self.keep_last else max(rows, key=lambda row: row[self.selection_metric])


def plot(title: str, curve: CurveSpec, rows: list[dict[str, float]]) -> bytes:
    """Plot the rows of a training log over epochs, the selected one marked; return a PNG file."""
    colours = {name: colour for name, colour in SPARSITY_COLOURS.items() if name in rows[0]}
    n_panels = 3 if colours else 2
    figure = create_figure(7, 3 * n_panels)
    loss_axes, metric_axes, *sparsity_axes = figure.subplots(n_panels, 1, sharex=True)
    epochs = [row["epoch"] for row in rows]
    loss_axes.plot(epochs, [row["loss"] for row in rows], color="#444444", marker=".")
    loss_axes.set(title=title, ylabel=curve.loss_label)
    if min(row["loss"] for row in rows) >= 0:
        loss_axes.set(ylim=(0, None))
    for name, colour in zip(curve.measures, COLOURS, strict=True):
        metric_axes.plot(epochs, [row[name] for row in rows], color=colour, marker=".", label=name)
    selected_row = curve.select(rows)
    metric = curve.selection_metric
    value = selected_row[curve.selection_metric]
    kind = "last" if curve.keep_last else "best"
    label = f"{kind} {metric}: {value:.1f} at epoch {selected_row['epoch']:.2f}"
    metric_axes.plot(selected_row["epoch"], value, "o", color="blue", markersize=8, label=label)
    metric_axes.set(ylabel=curve.metric_label)
    for axes in sparsity_axes:
        for name, colour in colours.items():
            axes.plot(epochs, [row[name] for row in rows], color=colour, marker=".", label=name)
        axes.set(ylabel="zeros in latent vectors (%)")
        axes.legend(loc="best", frameon=False)
    (sparsity_axes or [metric_axes])[-1].set(xlabel="epoch")
    columns = 4 if max(map(len, curve.measures)) <= 10 else 2
    position = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": columns}
    metric_axes.legend(**position, frameon=False, columnspacing=1.2, handletextpad=0.4)
    for axes in (loss_axes, metric_axes, *sparsity_axes):
        axes.grid(alpha=0.3)
    return render_png(figure)
