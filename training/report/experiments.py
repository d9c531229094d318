"""Format the result tables of `study collection`, `trials`, `argument-quality` and `augmented-sbert-sweeps` as Markdown."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from submission.errors import InputError
from training.formatting import format_value
from training.paths import RESULTS

VALIDATION = ("MRR@20", "MAP@20", "nDCG@20")
TOUCHE = ("nDCG@5 (Touché)", "nDCG@5 condensed", "nDCG@5 all")
RANKING_PLANS = ("word_networks", "gru", "bert_networks", "cedr_knrm")
SELECTED = "selected"  # value of the column `row` of the selected network
PUBLISHED = {  # Entezari 2020, table 4.2: VALIDATION in percent
    "gru": (28.4, 24.1, 38.05), "drmm": (67.0, 52.8, 64.77), "knrm": (84.35, 72.64, 80.24), "conv_knrm": (86.72, 73.32, 82.08),
    "snrm": (82.41, 70.14, 78.97), "vanilla_bert": (95.12, 88.5, 91.0), "cedr_knrm": (94.57, 90.18, 89.8),
    "cedr_drmm": (95.97, 88.09, 91.34),
}  # fmt: skip
DEEPCT_MEASURES = ("R²", "MAP", "Rprec")
DEEPCT_BASELINES = ("linear in IDF", "best constant")
QUALITY_MEASURES = ("Pearson", "Spearman", "Kendall")
QUALITY_SETTINGS = {"ukp": "UKP", "ibm": "IBM-ArgQ"}
TASKS = {"bws_cross": "BWS across topics", "bws_in": "BWS within topics", "mrpc": "MRPC"}
STEPS = "step_fraction"  # the sweep without test results


def format_collection_table(results: Path = RESULTS) -> str:
    """Format the numbers of arguments, unconfirmed texts and judged documents by portal, with a summary in a sentence."""
    table = _read(results / "collection.csv").set_index("corpus")
    names = {column: column.replace("judged_", "judged ") for column in table.columns if re.fullmatch("judged_[0-9]+", column)}
    columns = {"arguments": "arguments", "searchable": "at least 15 words", "unconfirmed": "unconfirmed"} | names
    rows = [[str(corpus), *(f"{count:,}" for count in counts)] for corpus, counts in table[list(columns)][:-1].iterrows()]
    total, outside = table.iloc[-2], table.iloc[-1]
    judged = [f"{total[column]:,} of {total[column] + outside[column]:,} judged documents of {column[-4:]}" for column in names]
    n_judged = sum(total[column.replace("judged_", "judged_unconfirmed_")] for column in names)
    mismatches = f"{total['mismatched']:,} of {total['arguments']:,} ids are not the hash of their text"
    unconfirmed = f"{n_judged} of the {total['unconfirmed']:,} unconfirmed texts are judged"
    summary = f"{mismatches}; {unconfirmed}. The excerpt has {' and '.join(judged)}."
    return f"{_format_table(['portal', *columns.values()], rows)}\n{summary}\n"


def format_trials_table(results: Path = RESULTS) -> str:
    """Format validation and test results of the ranking trials, with those of Entezari 2020, as a Markdown table."""
    means = _read(results / "trials_means.csv").pivot(index="run", columns="measure", values="mean")
    rows = []
    for plan in RANKING_PLANS:
        table = _read(results / f"trials_{plan}.csv")
        for (trial, network), values in table[table["row"] == SELECTED].groupby(["trial", "network"], sort=False):
            by_measure = values.groupby("measure")["value"]
            scores = [_format_deviation(by_measure.mean()[name], by_measure.std()[name], 1) for name in VALIDATION]
            touche = [format_value(means[name].get(trial)) for name in TOUCHE]
            published = " · ".join(f"{value:g}" for value in PUBLISHED[str(network)])
            rows.append([f"`{trial}`", str(values["seed"].nunique()), *scores, published, *touche])
    return _format_table(["trial", "seeds", *VALIDATION, "Entezari 2020", *TOUCHE], rows)


def format_deepct_table(results: Path = RESULTS) -> str:
    """Format the validation results of the DeepCT networks and the MAP of the baselines as a Markdown table."""
    table = _read(results / "trials_deepct.csv")
    rows = []
    for trial, values in table.groupby("trial", sort=False):
        cells = values[values["row"] != "curve"].set_index(["row", "measure"])["value"]
        keys = [*((SELECTED, name) for name in DEEPCT_MEASURES), *((name, "MAP") for name in DEEPCT_BASELINES)]
        rows.append([f"`{trial}`", *(format_value(cells[key], 1) for key in keys)])
    return _format_table(["network", *DEEPCT_MEASURES, *(f"MAP, {name}" for name in DEEPCT_BASELINES)], rows)


def format_quality_table(results: Path = RESULTS) -> str:
    """Format the results of all losses on UKP and IBM-ArgQ, with those of Favreau et al. 2022, as a Markdown table."""
    table = _read(results / "argument_quality_folds.csv").set_index(["network", "setting", "measure"])
    networks = table.index.unique("network")
    keys = pd.MultiIndex.from_product([networks, list(QUALITY_SETTINGS), QUALITY_MEASURES])
    cells = [
        _format_deviation(mean, deviation, 3) + _format_published(published, 2)
        for mean, deviation, published in table.reindex(keys)[["mean", "sd", "published"]].to_numpy()
    ]
    n_cells = len(cells) // len(networks)
    rows = [[str(network), *cells[row * n_cells : (row + 1) * n_cells]] for row, network in enumerate(networks)]
    names = [f"{name}: {measure}" for name in QUALITY_SETTINGS.values() for measure in QUALITY_MEASURES]
    return _format_table(["network", *names], rows)


def format_sweeps_table(results: Path = RESULTS) -> str:
    """Format the test results of the sweeps, with those of Thakur et al. 2021, as a Markdown table."""
    table = _read(results / "augmented_sbert_sweeps.csv")
    rows = []
    for (sweep, value, network), group in table[table["sweep"] != STEPS].groupby(["sweep", "value", "network"], sort=False):
        cells = {}
        for row in group.to_dict("records"):
            score = f"{_format_deviation(row['test'], row['test_sd'], 1)}, n = {row['repetitions']}"
            cells[row["task"]] = score + _format_published(row["published_test"], 1)
        rows.append([f"`{sweep}` {value:g}", str(network).replace("_", "-"), *(cells.get(task, "") for task in TASKS)])
    return _format_table(["setting", "network", *TASKS.values()], rows)


def format_steps_table(results: Path = RESULTS) -> str:
    """Format the dev results of partly trained networks and their rank correlation with the final ones as a Markdown table."""
    table = _read(results / "augmented_sbert_sweeps.csv")
    steps = table[table["sweep"] == STEPS].set_index(["value", "task"])
    rows = []
    for value in steps.index.unique("value"):
        groups = [steps.loc[(value, task)] for task in TASKS]
        cells = [
            f"{_format_deviation(group['dev'], group['dev_sd'], 1)} · {format_value(group['correlation_with_end'], 2)}"
            for group in groups
        ]
        rows.append([f"{value:.0%}", *cells])
    counts = [f"{name} (n = {steps.loc[(1.0, task), 'repetitions']})" for task, name in TASKS.items()]
    return _format_table(["steps", *counts], rows)


def _read(file: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot read results ({error}); write them with `python -m training study`") from None


def _format_deviation(mean: float, deviation: float, digits: int) -> str:
    """Format a mean and, if there are several values, their standard deviation."""
    return format_value(mean, digits) + ("" if pd.isna(deviation) else f" ± {deviation:.{digits}f}")


def _format_published(value: float, digits: int) -> str:
    return "" if pd.isna(value) else f" ({value:.{digits}f})"


def _format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
