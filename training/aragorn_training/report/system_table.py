"""Format the results of all systems as Markdown tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from aragorn.errors import InputError

from aragorn_training.evaluation.evaluate import BPREF, HEADLINE_MEASURES
from aragorn_training.evaluation.measures import TOUCHE_NDCG
from aragorn_training.paths import RESULTS

BASELINE = "dirichlet"
MEASURES = (*HEADLINE_MEASURES, BPREF, "judged@5")
NESTED, HELD_OUT, SELECTED = "nested", "held-out", "selected"  # protocols
# of MEASURES after the first
MEASURE_HEADERS = ("nDCG@5 judged-only", "nDCG@5", "Bpref", "Judged@5")
BEST_HEADERS = ("nDCG@5 (Touché) [95 % CI]", "judged-only", "all")
ALPHA = 0.05
N_BEST = 6  # number of systems in the main README


def format_results_tables(results: Path = RESULTS) -> str:
    """Format one table per year with all systems, best first; systems with undefined topics follow
    those without."""
    sections = []
    for year, rows in _load_rows(results).items():
        n_topics = max(row["n"] for row in rows)
        header = [
            f"system ({year})",
            "family",
            "protocol",
            "nDCG@5 (Touché) [95 % CI]",
            "n",
            *MEASURE_HEADERS,
        ]
        lines = [_format_row(header), _format_row(["---"] * len(header))]
        for row in sorted(rows, key=lambda row: (row["n"] < n_topics, -row["mean"])):
            cells = [row[measure] for measure in MEASURES[1:]]
            lines.append(
                _format_row(
                    [
                        row["name"],
                        row["family"],
                        row["protocol"],
                        row["interval"],
                        f"{row['n']}",
                        *cells,
                    ]
                )
            )
        sections.append("\n".join(lines) + "\n")
    return "\n".join(sections)


def format_best_table(results: Path = RESULTS) -> str:
    """Format the N_BEST systems by nDCG@5 (Touché) on the tuning year, with their results on all
    years."""
    rows_by_year = _load_rows(results)
    *_, tuning_year = rows_by_year
    labels = [f"{NESTED if year == tuning_year else HELD_OUT} {year}" for year in rows_by_year]
    header = [
        "system",
        "family",
        *(f"{label}: {name}" for label in labels for name in BEST_HEADERS),
    ]
    lines = [_format_row(header), _format_row(["---"] * len(header))]
    for best in sorted(rows_by_year[tuning_year], key=lambda row: -row["mean"])[:N_BEST]:
        cells = []
        for rows in rows_by_year.values():
            [row] = [row for row in rows if row["system"] == best["system"]]
            cells += [row["interval"], *(row[measure] for measure in HEADLINE_MEASURES[1:])]
        lines.append(_format_row([best["name"], best["family"], *cells]))
    return "\n".join(lines) + "\n"


def _load_rows(results: Path) -> dict[int, list[dict[str, Any]]]:
    """Load the rows of each year, the tuning year last; a year is a test year if all of its results
    are held-out.

    A row has `system family protocol n mean`, and as text `name`, `interval` and one cell per
    measure, with a mark if the difference from BASELINE is significant; the year's best value is
    bold.
    """
    try:
        means = pd.read_csv(results / "systems.csv")
        tests = pd.read_csv(results / "systems_significance.csv")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{results}: cannot read results ({error}); run `aragorn-training study results`"
        ) from None
    table = means.merge(tests[["system", "year", "measure", "difference", "p_holm"]], how="left")
    is_significant = table["p_holm"] < ALPHA
    marks = np.select(
        [is_significant & (table["difference"] > 0), is_significant & (table["difference"] < 0)],
        ["▲", "▼"],
        "",
    )
    text = table["mean"].map("{:.3f}".format)
    is_best = table["mean"] == table.groupby(["year", "measure"])["mean"].transform("max")
    table["cell"] = np.where(is_best, "**" + text + "**", text) + marks
    table["interval"] = (
        table["cell"] + table["low"].map(" [{:.3f}".format) + table["high"].map(", {:.3f}]".format)
    )
    table["name"] = table["system"].replace(BASELINE, f"*{BASELINE}*")
    cells = table.pivot(index=["year", "system"], columns="measure", values="cell").reset_index()
    rows = (
        table[table["measure"] == TOUCHE_NDCG]
        .drop(columns="measure")
        .merge(cells, on=["year", "system"])
    )
    by_year = {
        int(str(year)): group.to_dict("records") for year, group in rows.groupby("year", sort=False)
    }
    ordered_years = sorted(
        by_year, key=lambda year: any(row["protocol"] != HELD_OUT for row in by_year[year])
    )
    return {
        year: [{str(key): value for key, value in row.items()} for row in by_year[year]]
        for year in ordered_years
    }


def _format_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
