"""Tabulate evaluation results: means with intervals, significance tests and per-topic values, as
text and CSV."""

from collections.abc import Collection, Mapping, Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.errors import InputError, UsageError, suggest
from aragorn.storage.atomic_files import create_directory, write_atomic
from aragorn_training.evaluation.evaluate import ALL, BPREF, CONDENSED, HEADLINE_MEASURES
from aragorn_training.evaluation.overlap import Overlap
from aragorn_training.evaluation.significance import (
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
JUDGED_MEASURES = ("judged@5", "judged@10")


def tabulate_means(values: TopicValues, overlaps: Sequence[Overlap] = ()) -> pd.DataFrame:
    """Tabulate means with intervals; if a run lacks topics according to `overlaps`, also its means
    over the common topics.

    Returns:
        Rows (qrels, run, topic_set, measure), columns `n_topics mean ci_low ci_high`; `n_topics`
        counts topics with a value.
    """
    tables = {}
    for (qrels, run, topic_set), table in _group_by_topic_set(values, overlaps).items():
        means = bootstrap_means(table)
        means.insert(0, "n_topics", table.notna().sum())
        tables[qrels, run, topic_set] = means
    return pd.concat(tables, names=["qrels", "run", "topic_set", "measure"])


def _group_by_topic_set(
    values: TopicValues, overlaps: Sequence[Overlap]
) -> dict[tuple[str, str, str], pd.DataFrame]:
    """Return the values per topic by qrels, run and topic set."""
    by_topic_set = {}
    incomplete = {
        (overlap.qrels, overlap.run): overlap.common_topics
        for overlap in overlaps
        if overlap.missing_topics
    }
    for qrels, tables in values.items():
        for run, table in tables.items():
            by_topic_set[qrels, run, ALL_TOPICS] = table
            if (qrels, run) in incomplete:
                by_topic_set[qrels, run, COMMON_TOPICS] = table.loc[incomplete[qrels, run]]
    return by_topic_set


def tabulate_significance(values: TopicValues, baseline: str) -> pd.DataFrame:
    """Test each run against a baseline: rows (qrels, measure, run), columns of
    `compare_with_baseline`.

    Raises:
        UsageError: If the baseline is not among the runs.
    """
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
    tables = {
        (qrels, run): table for qrels, by_run in values.items() for run, table in by_run.items()
    }
    return pd.concat(tables, names=["qrels", "run", "qid"])


def write_tables(
    output: Path,
    values: TopicValues,
    overlaps: Sequence[Overlap],
    significance: pd.DataFrame | None,
) -> None:
    """Write means.csv, per_topic.csv and, unless `significance` is None, significance.csv to a
    directory."""
    create_directory(output)
    tables = {"means": tabulate_means(values, overlaps), "per_topic": tabulate_topics(values)}
    for name, table in (
        tables | ({} if significance is None else {"significance": significance})
    ).items():
        write_csv(output / f"{name}.csv", table, 6, index=True)


def format_evaluation(
    values: TopicValues,
    overlaps: Sequence[Overlap],
    significance: pd.DataFrame | None,
    baseline: str | None,
) -> str:
    """Format overlaps, means and, unless `significance` is None, the tests against the baseline as
    text."""
    sections = ["\n".join(overlap.format_summary() for overlap in overlaps)]
    for qrels in values:
        by_run = {
            run if topic_set == ALL_TOPICS else f"{run} (common topics)": table
            for (label, run, topic_set), table in _group_by_topic_set(values, overlaps).items()
            if label == qrels
        }
        warning = format_sample_size_warning(len(next(iter(by_run.values()))))
        sections += [f"{qrels}\n{_tabulate_headline(by_run)}", _tabulate_trectools(by_run), warning]
    if significance is not None and len(next(iter(values.values()))) < 2:
        sections.append(f"{baseline} is the only run; no significance tests")
    elif significance is not None:
        sections += _format_tests(significance, str(baseline))
    return "\n\n".join(filter(None, sections))


def _tabulate_headline(tables: Mapping[str, pd.DataFrame]) -> str:
    """Tabulate the nDCG@5 variants with intervals, topic counts and judged fractions, one row per
    run."""
    rows = {}
    for run, table in tables.items():
        means = bootstrap_means(table[[*HEADLINE_MEASURES]])
        row = {
            measure: _format_mean(*values)
            for measure, values in zip(HEADLINE_MEASURES, means.to_numpy(), strict=True)
        }
        row |= {
            "topics": str(len(table)),
            "topics (Touché)": str(table[HEADLINE_MEASURES[0]].notna().sum()),
        }
        rows[run] = row | {measure: f"{table[measure].mean():.3f}" for measure in JUDGED_MEASURES}
    return pd.DataFrame(rows).T.rename_axis("run").to_string()


def _format_mean(mean: float, low: float, high: float) -> str:
    return format_value(mean) if np.isnan(low) else f"{mean:.3f} ({low:.3f}–{high:.3f})"  # noqa: RUF001 a range


def _tabulate_trectools(tables: Mapping[str, pd.DataFrame]) -> str:
    """Tabulate the means of trectools' measures and bpref, one row per run and treatment of
    unjudged documents."""
    rows = {}
    for run, table in tables.items():
        means = table.mean()
        for treatment in (CONDENSED, ALL):
            treatment_means = means[
                [name for name in means.index if name.endswith(f" {treatment}")]
            ]
            rows[run, treatment] = pd.concat(
                [treatment_means.rename(lambda name: name.rpartition(" ")[0]), means[[BPREF]]]
            )
    return _format_table(pd.DataFrame(rows).T.rename_axis(["run", "documents"]))


def _format_tests(significance: pd.DataFrame, baseline: str) -> list[str]:
    """Format the tests of the headline measures, one text per qrels and measure."""
    sections = []
    for (qrels, measure), table in significance.groupby(level=["qrels", "measure"], sort=False):
        if measure in HEADLINE_MEASURES:
            by_run = table.droplevel(["qrels", "measure"]).rename_axis(
                f"{qrels}: {measure} vs. {baseline}"
            )
            sections.append(_format_table(by_run, 4))
            sections += describe_untested_runs(by_run)
    return sections


def _format_table(table: pd.DataFrame, digits: int = 3) -> str:
    return table.to_string(float_format=lambda value: f"{value:.{digits}f}", na_rep="")


def write_csv(file: Path, table: pd.DataFrame, digits: int, *, index: bool = False) -> None:
    """Write a table as CSV with `digits` decimal places; include its index if `index` is true."""
    write_atomic(file, table.to_csv(index=index, float_format=f"%.{digits}f", lineterminator="\n"))


def read_rows_to_keep(file: Path, column: str, names: Collection[str]) -> pd.DataFrame:
    """Read a CSV file's rows, as texts, whose `column` is not in `names`; no file, no rows."""
    if not file.exists():
        return pd.DataFrame()
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
        return table[~table[column].isin(names)]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{file}: not a table of this study ({error!r}); choose another --output"
        ) from None


def merge_rows(
    table: pd.DataFrame, previous_rows: pd.DataFrame, column: str, order: Sequence[str], digits: int
) -> str:
    """Return new rows, rounded, and previous ones as CSV text, `column` in the given order."""
    buffer = StringIO(table.to_csv(index=False, float_format=f"%.{digits}f"))
    positions = {name: position for position, name in enumerate(order)}
    merged_rows = pd.concat([pd.read_csv(buffer, dtype=str, keep_default_na=False), previous_rows])
    ordered_rows = merged_rows.sort_values(
        column, key=lambda names: names.map(positions), kind="stable"
    )
    return str(ordered_rows.to_csv(index=False, lineterminator="\n"))
