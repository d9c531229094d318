"""The learning curve: loss, validation with the best MAP marked (thesis, figures 4.2-4.5), sparsity of latent networks."""

from __future__ import annotations

from training.pictures import figure, png

COLOURS = {"MRR@20": "#d1495b", "MAP@20": "#30638e", "nDCG@20": "#3c8d5a"}
SPARSITY = {"sparsity of queries": "#7b4b94", "sparsity of documents": "#c98b1b"}  # latent networks have these


def draw(title: str, rows: list[dict[str, float]]) -> bytes:
    """The rows of a training log (epoch, loss, MRR@20, MAP@20, nDCG@20 and, if there, sparsity in percent) as PNG."""
    sparse = {name: colour for name, colour in SPARSITY.items() if name in rows[0]}
    panels = 3 if sparse else 2
    drawn = figure(7, 3 * panels)
    above, below, *third = drawn.subplots(panels, 1, sharex=True)
    epochs = [row["epoch"] for row in rows]
    above.plot(epochs, [row["loss"] for row in rows], color="#444444", marker=".")
    above.set(title=title, ylabel="pairwise hinge loss", ylim=(0, None))
    for name, colour in COLOURS.items():
        below.plot(epochs, [row[name] for row in rows], color=colour, marker=".", label=name)
    best = max(rows, key=lambda row: row["MAP@20"])
    label = f"best MAP@20: {best['MAP@20']:.1f} at epoch {best['epoch']:.2f}"
    below.plot(best["epoch"], best["MAP@20"], "o", color="blue", markersize=8, label=label)
    below.set(ylabel="percent, 5 + 100 premises a query")
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
