"""Tabulate evaluation results: means with intervals, significance tests and per-topic values, as
text and CSV."""

import re
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.errors import InputError, UsageError, pluralise, suggest
from aragorn.storage.atomic_files import (
    create_directory,
    read_regular,
    write_all_atomic,
    write_atomic,
)
from aragorn_training.evaluation.overlap import Overlap
from aragorn_training.evaluation.significance import (
    ALPHA,
    bootstrap_means,
    compare_with_baseline,
    describe_untested_runs,
    format_sample_size_warning,
)
from aragorn_training.formatting import format_value

# tables of measures per topic, by qrels and run
TopicValues = Mapping[str, Mapping[str, pd.DataFrame]]
# topic sets over which means are computed
ALL_TOPICS = "all judged"
COMMON_TOPICS = "common"
# texts of the best mean and of another one; of a significant gain and loss
STYLES = {
    "table": ("{}", "{}", "▲", "▼"),
    "terminal": ("\033[1m{}\033[0m", "\033[0m{}\033[0m", "▲", "▼"),
    "markdown": ("**{}**", "{}", "▲", "▼"),
    "latex": (r"\textbf{{{}}}", "{}", r"$\blacktriangle$", r"$\blacktriangledown$"),
}
LATEX_ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "_%&#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)
SIGNIFICANCE_START = b"qrels,measure,run,"  # of significance.csv


def tabulate_means(values: TopicValues, overlaps: Sequence[Overlap] = ()) -> pd.DataFrame:
    """Tabulate means with intervals; if a run lacks topics according to `overlaps`, also its means
    over the common topics: rows (qrels, run, topic_set, measure), columns `n_topics mean ci_low
    ci_high`, where `n_topics` counts topics with a value."""
    incomplete = {
        (overlap.qrels, overlap.run): overlap.common_topics
        for overlap in overlaps
        if overlap.missing_topics
    }
    tables = {}
    for qrels, by_run in values.items():
        for run, table in by_run.items():
            tables[qrels, run, ALL_TOPICS] = _tabulate_run(table)
            if topics := incomplete.get((qrels, run)):
                tables[qrels, run, COMMON_TOPICS] = _tabulate_run(table.loc[topics])
    return pd.concat(tables, names=["qrels", "run", "topic_set", "measure"])


def _tabulate_run(table: pd.DataFrame) -> pd.DataFrame:
    means = bootstrap_means(table)
    means.insert(0, "n_topics", table.notna().sum())
    return means


def tabulate_significance(values: TopicValues, baseline: str) -> pd.DataFrame:
    """Test each run against a baseline: rows (qrels, measure, run), columns of
    `compare_with_baseline`; raise UsageError if the baseline is not among the runs."""
    tables = {}
    for qrels, by_run in values.items():
        if baseline not in by_run:
            rule = "names are file names without extension, or NAME of NAME=RUN"
            raise UsageError(f"unknown baseline {baseline!r}; {rule}; {suggest(baseline, by_run)}")
        for measure in next(iter(by_run.values())).columns:
            tables[qrels, measure] = compare_with_baseline(
                {run: table[measure] for run, table in by_run.items()}, baseline
            )
    return pd.concat(tables, names=["qrels", "measure", "run"])


def tabulate_topics(values: TopicValues) -> pd.DataFrame:
    """Concatenate per-topic values: rows (qrels, run, qid), one column per measure."""
    tables = {qrels: pd.concat(by_run) for qrels, by_run in values.items()}
    return pd.concat(tables, names=["qrels", "run", "qid"])


def write_tables(
    output: Path, means: pd.DataFrame, values: TopicValues, significance: pd.DataFrame | None
) -> None:
    """Write means.csv, per_topic.csv and, unless it is None, significance.csv to a directory, in
    which no significance.csv of other runs remains."""
    tables = {"means": means, "per_topic": tabulate_topics(values), "significance": significance}
    write_csvs(output, {name: table for name, table in tables.items() if table is not None})
    file = output / "significance.csv"
    if significance is None and file.is_file() and file.read_bytes().startswith(SIGNIFICANCE_START):
        file.unlink()  # the tests of other runs


def describe_tests(values: TopicValues, significance: pd.DataFrame | None) -> list[str]:
    """Return warnings about few topics, and about runs without a test by the first measure."""
    lines = []
    for qrels, by_run in values.items():
        first = next(iter(by_run.values()))
        lines.append(format_sample_size_warning(len(first)))
        if significance is not None and len(by_run) > 1:
            is_first = significance.index.get_level_values("measure") == first.columns[0]
            tests = significance[is_first].droplevel("measure").loc[[qrels]].droplevel("qrels")
            lines += describe_untested_runs(tests)
    return [*dict.fromkeys(filter(None, lines))]


def format_evaluation(
    means: pd.DataFrame, tests: pd.DataFrame | None, measures: Sequence[str], format_name: str
) -> str:
    """Format means and, if any, tests, as `tabulate_means` and `tabulate_significance` do.

    Formats `csv` and `json` have one row per qrels, run, topic set and measure. The others have one
    table per qrels and one row per run, see `order_best_first`, with the interval of the first
    measure; the best means are bold, and ▲ and ▼ mark significant differences from the baseline.
    """
    table = means.reset_index()
    table = table[table["measure"].isin(measures)]
    if tests is not None:
        columns = ["difference", "p_t_holm", "p_randomisation_holm"]
        differences = tests[columns].assign(topic_set=ALL_TOPICS).reset_index()
        table = table.merge(differences, how="left")
    if format_name == "csv":
        return table.to_csv(index=False, float_format="%.6f", lineterminator="\n").rstrip()
    if format_name == "json":
        return str(table.to_json(orient="records", indent=1, double_precision=6))
    sections = []
    for qrels, rows in table.groupby("qrels", sort=False):
        cells = _build_cells(rows.copy(), measures, STYLES[format_name])
        title = f"{qrels}, {pluralise(int(rows['n_topics'].max()), 'topic')}"
        if format_name == "latex":
            title = f"% {title}; packages: booktabs, amssymb"
        sections.append(f"{title}\n{_render(cells, format_name)}")
    return "\n\n".join(sections)


def order_best_first(means: pd.Series, n_topics: pd.Series) -> np.ndarray:
    """Return the positions of runs in the order of tables, best first; equal runs keep their order.

    The order is that of the means over all topics, where those without a value count as 0, so that
    no run gains by topics without a value. For `n_topics`, see `tabulate_means`.
    """
    sums = (means * n_topics).fillna(0.0)  # in the order of these means
    return np.argsort(-sums.round(9).to_numpy(float), kind="stable")


def _build_cells(
    table: pd.DataFrame, measures: Sequence[str], style: tuple[str, str, str, str]
) -> pd.DataFrame:
    """Return the texts of runs (rows): the first measure with its interval, `n`, other measures."""
    best, normal, better, worse = style
    is_complete = table["topic_set"] == ALL_TOPICS
    table["run"] += np.where(is_complete, "", " (common topics)")
    means = table["mean"].where(is_complete)
    is_best = means == means.groupby(table["measure"]).transform("max")
    text = table["mean"].map(format_value)
    table["cell"] = np.where(is_best, text.map(best.format), text.map(normal.format))
    if "difference" in table:
        is_significant = table["p_randomisation_holm"] < ALPHA
        is_better = table["difference"] > 0
        table["cell"] += np.where(is_significant, np.where(is_better, better, worse), "")
    first = table[table["measure"] == measures[0]].set_index("run")
    cells = table.pivot(index="run", columns="measure", values="cell")[[*measures]]
    bounds = first[["ci_low", "ci_high"]].dropna()
    intervals = [f" [{low:.3f}, {high:.3f}]" for low, high in bounds.to_numpy()]
    cells.loc[bounds.index, measures[0]] += intervals
    cells.insert(1, "n", first["n_topics"].astype(str).map(normal.format))
    cells = cells.rename(columns={measures[0]: f"{measures[0]} [95 % interval]"})
    ordered_cells = cells.loc[first.index].iloc[order_best_first(first["mean"], first["n_topics"])]
    return ordered_cells.rename_axis(index=None, columns="run")


def _render(cells: pd.DataFrame, format_name: str) -> str:
    if format_name == "markdown":
        header = ["run", *cells.columns]
        rows = [header, ["---"] * len(header), *cells.reset_index().to_numpy().tolist()]
        return "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)
    if format_name == "latex":
        names = [name.translate(LATEX_ESCAPES) for name in cells.index]
        headers = [name.translate(LATEX_ESCAPES) for name in cells.columns]
        escaped = cells.set_axis(names).set_axis(headers, axis="columns")
        return str(escaped.to_latex(escape=False, column_format="l" + "r" * len(headers))).rstrip()
    if format_name == "terminal":  # all cells have escape sequences of the same length
        cells = cells.rename(columns=STYLES[format_name][1].format)
    return str(cells.to_string())


def write_csvs(directory: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write tables with their indexes to a directory as NAME.csv; raise OutputError, before the
    first is written, if one cannot be."""
    create_directory(directory)
    write_all_atomic(
        {directory / f"{name}.csv": format_csv(table, 6) for name, table in tables.items()}
    )


def write_csv(file: Path, table: pd.DataFrame, digits: int) -> None:
    """Write a table without its index as CSV with `digits` decimals, see `format_csv`."""
    write_atomic(file, *format_csv(table, digits, index=False))


def format_csv(
    table: pd.DataFrame, digits: int, *, index: bool = True, n_fixed: int = 3
) -> tuple[str, bytes]:
    """Format a table as CSV with `digits` decimals; also return the pattern of the files of its
    kind, which have the same first `n_fixed` columns."""
    text = table.to_csv(index=index, float_format=f"%.{digits}f", lineterminator="\n")
    return text, build_csv_pattern(text.partition("\n")[0].split(",")[:n_fixed])


def build_csv_pattern(columns: Sequence[str]) -> bytes:
    """Return a pattern of the start of CSV files with these first columns."""
    return re.escape(",".join(columns).encode()) + rb"[,\r\n]"


def read_previous_rows(file: Path, column: str) -> pd.DataFrame:
    """Read a CSV file with a `column` as texts; no file, no rows. Raises InputError for another
    file."""
    if not file.exists():
        return pd.DataFrame(columns=[column])
    try:
        table = pd.read_csv(BytesIO(read_regular(file)), dtype=str, keep_default_na=False)
        table[column]  # KeyError if the column is missing
        return table
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{file}: not a table of this study ({error!r}); choose another --output"
        ) from None


def merge_rows(
    table: pd.DataFrame, previous_rows: pd.DataFrame, column: str, order: Sequence[str], digits: int
) -> str:
    """Return new rows, rounded, and the previous rows of other names in `column`, as CSV text with
    the names in the given order."""
    buffer = StringIO(table.to_csv(index=False, float_format=f"%.{digits}f"))
    is_kept = ~previous_rows[column].isin(table[column])
    kept_rows = previous_rows[is_kept].reset_index(drop=True)
    rows = pd.concat([pd.read_csv(buffer, dtype=str, keep_default_na=False), kept_rows])
    positions = {name: position for position, name in enumerate(order)}
    rows = rows.sort_values(column, key=lambda names: names.map(positions), kind="stable")
    return str(rows.to_csv(index=False, lineterminator="\n"))
