"""Format the result tables of `fuse` and `study` as Markdown."""

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from aragorn.errors import InputError

from aragorn_training.formatting import format_value
from aragorn_training.paths import RESULTS
from aragorn_training.published import load_figures

MAP = "MAP@20"
TOUCHE = ("nDCG@5 (Touché)", "nDCG@5 condensed", "nDCG@5 all")
RANKING_PLANS = ("word_networks", "gru", "bert_networks", "cedr_knrm")
SELECTED = "selected"  # value of the column `row` of the selected network
PUBLISHED_ROWS = {  # network → row of table 4.2 of Entezari 2020
    "gru": "GRU", "drmm": "DRMM", "knrm": "KNRM", "conv_knrm": "CKNRM", "snrm": "SNRM", "vanilla_bert": "Vanilla BERT",
    "cedr_knrm": "KNRM BERT", "cedr_drmm": "DRMM BERT",
}  # fmt: skip
DEEPCT_MEASURES = ("R²", "MAP")
DEEPCT_BASELINES = ("linear in IDF", "best constant")
ENRICHMENTS = {  # file → names of the reported enrichments
    "enrichment_deepct.csv": ("none", "deepct"),
    "enrichment_targer.csv": ("targer_essays",),
}
ENRICHMENT_MEASURES = (*TOUCHE[:2], "Bpref")
ALPHA = 0.05  # level of significance after Holm's correction


def format_collection_table(results: Path = RESULTS) -> str:
    """Format the numbers of arguments, unconfirmed texts and judged documents by portal, with a
    summary in a sentence."""
    table = _read(results / "collection.csv").set_index("corpus")
    names = {
        column: column.replace("judged_", "judged ")
        for column in table.columns
        if re.fullmatch("judged_[0-9]+", column)
    }
    columns = {
        "arguments": "arguments",
        "searchable": "at least 15 words",
        "unconfirmed": "unconfirmed",
    } | names
    rows = [
        [str(corpus), *(f"{count:,}" for count in counts)]
        for corpus, counts in table[list(columns)][:-1].iterrows()
    ]
    total, outside = table.iloc[-2], table.iloc[-1]
    judged = [
        f"{total[column]:,} of {total[column] + outside[column]:,} judged documents of {column[-4:]}"
        for column in names
    ]
    n_judged = sum(total[column.replace("judged_", "judged_unconfirmed_")] for column in names)
    mismatches = (
        f"{total['mismatched']:,} of {total['arguments']:,} ids are not the hash of their text"
    )
    unconfirmed = f"{n_judged} of the {total['unconfirmed']:,} unconfirmed texts are judged"
    summary = f"{mismatches}; {unconfirmed}. The excerpt has {' and '.join(judged)}. {_format_exclusion(results)}"
    return f"{_format_table(['portal', *columns.values()], rows)}\n{summary}\n"


def _format_exclusion(results: Path) -> str:
    """Format nDCG@5 (all) of 2021 with and without the unconfirmed texts."""
    tables = [_read(results / f"{name}.csv") for name in ("systems", "systems_excluded")]
    selections = [
        table[(table["year"] == 2021) & (table["measure"] == TOUCHE[2])] for table in tables
    ]
    means, means_without = (table.set_index("system")["mean"] for table in selections)
    changes = [
        f"{means_without[name]:.3f} instead of {means[name]:.3f} (`{name}`)"
        for name in ("fusion", "dirichlet")
    ]
    return (
        f"Without the unconfirmed texts, nDCG@5 (all) of 2021 is {' and '.join(changes)}, and changes by at most "
        f"{(means_without - means).abs().max():.3f} for any system (`systems_excluded.csv`)."
    )


def format_fusion_table(results: Path = RESULTS) -> str:
    """Format the changes of nDCG@5 without each feature of the fusion and by other learners as a
    Markdown table."""
    rows = []
    for file, column, prefix in (
        ("fusion_ablation_repeated", "removed_feature", "without "),
        ("fusion_learners", "learner", ""),
    ):
        table = _read(results / f"{file}.csv")
        changes = table[table["ci_low"].notna()]
        for name, values in changes.groupby(column, sort=False):
            cells = values.set_index("measure").loc[list(TOUCHE)].to_dict("records")
            interval = f"[{cells[0]['ci_low']:+.3f}, {cells[0]['ci_high']:+.3f}]"
            differences = [f"{cell['difference']:+.3f}{_format_mark(cell)}" for cell in cells]
            rows.append([f"{prefix}`{name}`", differences[0], interval, *differences[1:]])
    return _format_table(["change", TOUCHE[0], "95 % interval", *TOUCHE[1:]], rows)


def format_enrichments_table(results: Path = RESULTS) -> str:
    """Format the results of retrieval models on original texts, with DeepCT and with TARGER as a
    Markdown table."""
    rows = []
    for file, names in ENRICHMENTS.items():
        table = _read(results / file)
        table = table[table["topics"] == table["topics"].iloc[0]].set_index(
            ["retrieval_model", "enrichment", "measure"]
        )
        for model in table.index.unique("retrieval_model"):
            for name in names:
                cells = [table.loc[(model, name, measure)] for measure in ENRICHMENT_MEASURES]
                rows.append(
                    [
                        str(model),
                        name,
                        *(f"{cell['mean']:.3f}{_format_mark(cell)}" for cell in cells),
                    ]
                )
    rows.sort(key=lambda row: row[0])
    return _format_table(["model", "enrichment", *ENRICHMENT_MEASURES], rows)


def format_students_table(results: Path = RESULTS) -> str:
    """Format the validation results of the bi-encoders of Augmented SBERT on args.me as a Markdown
    table."""
    table = _read(results / "augmented_sbert_students.csv")
    measures = ["nDCG@10", "MRR@10", "recall@100"]
    rows = [
        [str(row["loss"]).replace("nan", "not trained"), str(row["training_pairs"]).replace("nan", ""),
         *(f"{row[measure] / 100:.3f}" for measure in measures)]
        for row in table[table["nDCG@10"].notna()].to_dict("records")
    ]  # fmt: skip
    return _format_table(["loss", "training pairs", *measures], rows)


def format_step_seconds(results: Path = RESULTS) -> str:
    """Format the measured minutes of the steps of `all`, by device, as a Markdown list."""
    table = _read(results / "step_seconds.csv").groupby("device", sort=False)
    lines = [
        f"- {device}: {', '.join(f'{step} {seconds / 60:.1f}' for step, seconds in rows[['step', 'seconds']].to_numpy())}"
        for device, rows in table
    ]
    return "\n".join(lines) + "\n"


def format_trials_table(results: Path = RESULTS) -> str:
    """Format validation and test results of the ranking trials, with those of Entezari 2020, as a
    Markdown table."""
    means = _read(results / "trials_means.csv").pivot(index="run", columns="measure", values="mean")
    published = load_figures("entezari_2020", "Table 4.2")
    rows = []
    for plan in RANKING_PLANS:
        table = _read(results / f"trials_{plan}.csv")
        selected = table[(table["row"] == SELECTED) & (table["measure"] == MAP)]
        for (trial, network), values in selected.groupby(["trial", "network"], sort=False):
            score = _format_deviation(values["value"].mean() / 100, values["value"].std() / 100, 3)
            touche = [format_value(means[name].get(trial)) for name in TOUCHE[:2]]
            theirs = float(published[PUBLISHED_ROWS[str(network)], MAP]) / 100
            rows.append(
                [f"`{trial}`", str(values["seed"].nunique()), score, f"{theirs:.3f}", *touche]
            )
    return _format_table(["trial", "seeds", MAP, f"{MAP}, Entezari 2020", *TOUCHE[:2]], rows)


def format_deepct_table(results: Path = RESULTS) -> str:
    """Format the validation results of the DeepCT networks and the MAP of the baselines as a
    Markdown table."""
    table = _read(results / "trials_deepct.csv")
    rows = []
    for trial, values in table.groupby("trial", sort=False):
        cells = values[values["row"] != "curve"].set_index(["row", "measure"])["value"]
        keys = [
            *((SELECTED, name) for name in DEEPCT_MEASURES),
            *((name, "MAP") for name in DEEPCT_BASELINES),
        ]
        rows.append([f"`{trial}`", *(format_value(cells[key] / 100) for key in keys)])
    return _format_table(
        ["network", *DEEPCT_MEASURES, *(f"MAP, {name}" for name in DEEPCT_BASELINES)], rows
    )


def _read(file: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{file}: cannot read results ({error}); write them with `aragorn-training study`"
        ) from None


def _format_deviation(mean: float, deviation: float, digits: int) -> str:
    """Format a mean and, if there are several values, their standard deviation."""
    return format_value(mean, digits) + ("" if pd.isna(deviation) else f" ± {deviation:.{digits}f}")


def _format_mark(row: Mapping[Hashable, Any]) -> str:
    """Return ▲ for a significantly positive difference, ▼ for a negative one, else an empty
    string."""
    p_value = row["p_randomisation_holm"]
    return "" if pd.isna(p_value) or p_value >= ALPHA else "▲" if row["difference"] > 0 else "▼"


def _format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]]) + "\n"
