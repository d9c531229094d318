"""Plot the results of the study."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from aragorn_training.evaluation.plots import NEUTRAL, create_figure, render_png
from aragorn_training.studies.argument_quality.protocol import SETTINGS

DATA_NAMES = {"ukp": "UKP", "ibm": "IBM", "webis": "Webis"}
DARK, LIGHT = "#1b1e22", "#d1702b"
# networks by name, with {loss} replaced: label and style of the points
NETWORKS: dict[str, tuple[str, dict[str, str]]] = {
    "length": ("number of words", {"marker": "s", "color": LIGHT}),
    "untrained": (
        "ridge regression, encoder not fine-tuned",
        {"marker": "^", "color": DARK, "markerfacecolor": "white"},
    ),
    "{loss}": ("TFR-BERT", {"marker": "o", "color": NEUTRAL}),
    "{loss} (argument only)": (
        "TFR-BERT without the topic",
        {"marker": "o", "color": NEUTRAL, "markerfacecolor": "white"},
    ),
}
OTHER_TARGETS = (
    "rhetorical",
    "logical",
    "dialectical",
)  # of Webis, in addition to combined quality
LOSS_NAMES = {
    "length": "number of words",
    "untrained": "encoder not fine-tuned",
    "pointwise": "squared error of scores",
    "mse": "squared error of ranks",
    "hinge": "pairwise hinge",
    "logistic": "pairwise logistic",
    "softmax": "softmax cross-entropy",
    "list_mle": "ListMLE",
    "approx_ndcg": "ApproxNDCG",
    "ensemble": "mean of all losses of ranks",
    "ensemble (standardised)": "mean, standardised scores",
    "ensemble of Favreau 2022": "mean of the published losses",
}


def plot_correlations(results: pd.DataFrame, loss: str) -> bytes:
    """Return the figure of `draw_correlations` as PNG."""
    return render_png(draw_correlations(results, loss))


def draw_correlations(results: pd.DataFrame, loss: str) -> Figure:
    """Draw Spearman's correlations with 95 % intervals: the networks of a loss by training and test
    data, and the networks of all losses."""
    rows = results[(results["measure"] == "Spearman") & ~results["target"].isin(OTHER_TARGETS)]
    rows = rows[rows["setting"].map(lambda name: name in SETTINGS and SETTINGS[name].n_folds <= 4)]
    rows = rows.assign(
        case=[_name_case(*key) for key in zip(rows["setting"], rows["test_set"], strict=True)]
    )
    losses = rows[rows["network"].isin([*LOSS_NAMES]) & (rows["setting"] == "ukp")]
    panels = 2 if len(losses) else 1
    n_rows = max(rows["case"].nunique(), losses["network"].nunique())
    fig = create_figure(5.5 * panels, 1.6 + 0.38 * n_rows)
    axes = fig.subplots(1, panels, squeeze=False)[0]
    cases = [*dict.fromkeys(rows["case"])]
    for position, (name, (label, style)) in enumerate(NETWORKS.items()):
        group = rows[rows["network"] == name.format(loss=loss)]
        heights = [cases.index(case) + 0.16 * (position - 1.5) for case in group["case"]]
        _plot_intervals(axes[0], group, heights, label=label, **style)
    _label(axes[0], cases, f"TFR-BERT: {LOSS_NAMES[loss]} loss")
    fig.legend(loc="outside lower center", ncols=2, frameon=False)
    if len(losses):
        names = [LOSS_NAMES[name] for name in losses["network"]]
        _plot_intervals(axes[1], losses, range(len(names)), marker="o", color=NEUTRAL)
        _label(axes[1], names, "Losses, trained and tested on UKP")
    return fig


def _name_case(setting: str, test_set: str) -> str:
    training = " and ".join(DATA_NAMES[name] for name in SETTINGS[setting].train_data)
    return f"{training} → {DATA_NAMES[test_set]}"


def _plot_intervals(axes: Any, rows: pd.DataFrame, heights: Sequence[float], **style: str) -> None:
    means, low, high = rows[["mean", "ci_low", "ci_high"]].to_numpy(float).T
    errors = [means - low, high - means]
    axes.errorbar(means, heights, xerr=errors, linestyle="", markersize=5, **style)


def _label(axes: Any, names: Sequence[str], title: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="Spearman correlation, mean over topics", title=title)
    axes.grid(alpha=0.3)
