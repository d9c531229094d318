"""The learning curve: loss, validation with the best value marked (thesis, figures 4.2-4.5), sparsity of latent networks."""

from __future__ import annotations

from dataclasses import dataclass

from training.pictures import figure, png

COLOURS = ("#d1495b", "#30638e", "#3c8d5a")
SPARSITY = {"sparsity of queries": "#7b4b94", "sparsity of documents": "#c98b1b"}  # latent networks have these


@dataclass(frozen=True)
class Curve:
    """The axes of a learning curve, and the measure that picks the checkpoint."""

    loss: str
    measures: tuple[str, str, str]
    decisive: str  # the one of them that picks the checkpoint, where one does
    scale: str  # of the measures, in words
    unit: str  # of what is validated on, in the plural
    keeps_last: bool = False  # the last network, whatever is measured on the way

    @property
    def kept_epoch(self) -> str:
        """The name of the kept network's epoch in the metrics."""
        return "last epoch" if self.keeps_last else "best epoch"

    def kept(self, rows: list[dict[str, float]]) -> dict[str, float]:
        """The row of the network that is kept: of the best so far, the first of equal ones, or of the last."""
        return rows[-1] if self.keeps_last else max(rows, key=lambda row: row[self.decisive])


def draw(title: str, curve: Curve, rows: list[dict[str, float]]) -> bytes:
    """Draw the rows of a training log (epoch, loss, the curve's measures and, if there, sparsity in percent) as PNG."""
    sparse = {name: colour for name, colour in SPARSITY.items() if name in rows[0]}
    panels = 3 if sparse else 2
    drawn = figure(7, 3 * panels)
    above, below, *third = drawn.subplots(panels, 1, sharex=True)
    epochs = [row["epoch"] for row in rows]
    above.plot(epochs, [row["loss"] for row in rows], color="#444444", marker=".")
    above.set(title=title, ylabel=curve.loss)
    if min(row["loss"] for row in rows) >= 0:
        above.set(ylim=(0, None))
    for name, colour in zip(curve.measures, COLOURS, strict=True):
        below.plot(epochs, [row[name] for row in rows], color=colour, marker=".", label=name)
    kept = curve.kept(rows)
    which = "last" if curve.keeps_last else "best"
    label = f"{which} {curve.decisive}: {kept[curve.decisive]:.1f} at epoch {kept['epoch']:.2f}"
    below.plot(kept["epoch"], kept[curve.decisive], "o", color="blue", markersize=8, label=label)
    below.set(ylabel=curve.scale)
    for axes in third:
        for name, colour in sparse.items():
            axes.plot(epochs, [row[name] for row in rows], color=colour, marker=".", label=name)
        axes.set(ylabel="zeros in latent vectors, percent")
        axes.legend(loc="best", frameon=False)
    (third or [below])[-1].set(xlabel="epoch")
    below.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, columnspacing=1.2, handletextpad=0.4)
    for axes in (above, below, *third):
        axes.grid(alpha=0.3)
    return png(drawn)
