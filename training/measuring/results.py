"""The tables of an evaluation: means with intervals, tests against a baseline, values per topic; printed and as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from submission.disk.files import make_directory, write_whole
from submission.errors import UsageError, nearest
from training.measuring.significance import against_baseline, intervals

Values = Mapping[str, Mapping[str, pd.DataFrame]]  # by qrels and run: measures per topic, as `evaluate` gives them
TESTED = ("nDCG@5 judged", "nDCG@5 all")  # printed; the files have all measures


def means(values: Values) -> pd.DataFrame:
    """Rows (qrels, run), columns measures."""
    rows = {(qrels, run): table.mean() for qrels, tables in values.items() for run, table in tables.items()}
    return pd.DataFrame(rows).T.rename_axis(["qrels", "run"])


def bounds(values: Values) -> pd.DataFrame:
    """Rows (qrels, run, measure), columns `mean low high`."""
    parts = {(qrels, run): intervals(table) for qrels, tables in values.items() for run, table in tables.items()}
    return pd.concat(parts, names=["qrels", "run", "measure"])


def tests(values: Values, baseline: str) -> pd.DataFrame:
    """Rows (qrels, measure, run), columns as `against_baseline` gives them.

    Raises:
        UsageError: the baseline is not among the runs, or alone.
    """
    parts = {}
    for qrels, tables in values.items():
        if baseline not in tables or len(tables) < 2:
            raise UsageError(f"baseline {baseline!r}: expected one of two runs or more; {nearest(baseline, tables)}")
        for measure in next(iter(tables.values())).columns:
            parts[qrels, measure] = against_baseline({run: table[measure] for run, table in tables.items()}, baseline)
    return pd.concat(parts, names=["qrels", "measure", "run"])


def per_topic(values: Values) -> pd.DataFrame:
    """Rows (qrels, run, qid), columns measures."""
    parts = {(qrels, run): table for qrels, tables in values.items() for run, table in tables.items()}
    return pd.concat(parts, names=["qrels", "run", "qid"])


def report(values: Values, baseline: str | None, output: Path | None) -> str:
    """The tables as text; with an output also as means.csv, topics.csv and, with a baseline, tests.csv.

    Raises:
        UsageError: an unknown baseline. OutputError: it cannot be written.
    """
    tested = tests(values, baseline) if baseline else None
    parts = [
        f"{qrels}\n{_two_ways(table.droplevel('qrels'))}" for qrels, table in means(values).groupby(level="qrels", sort=False)
    ]
    if tested is not None:
        for (qrels, measure), table in tested.groupby(level=["qrels", "measure"], sort=False):
            if measure in TESTED:
                shown = table.droplevel(["qrels", "measure"]).rename_axis(f"{qrels}: {measure}, against {baseline}")
                parts.append(_text(shown, 4))
    if output:
        make_directory(output)
        files = {"means": bounds(values), "topics": per_topic(values), **({} if tested is None else {"tests": tested})}
        for name, table in files.items():
            write_whole(output / f"{name}.csv", table.to_csv(float_format="%.6f", lineterminator="\n"))
    return "\n\n".join(parts)


def _two_ways(table: pd.DataFrame) -> str:
    """Means with `all` and `judged` below each other: one line a run and way."""
    either = [name for name in table.columns if not name.endswith((" all", " judged"))]
    ways = {}
    for way in ("judged", "all"):
        own = table[[name for name in table.columns if name.endswith(f" {way}")]]
        ways[way] = own.rename(columns=lambda name: name.rpartition(" ")[0]).join(table[either])
    both = pd.concat(ways, names=["documents"]).swaplevel()
    return _text(both.reindex([(run, way) for run in table.index for way in ways]))


def _text(table: pd.DataFrame, digits: int = 3) -> str:
    return table.to_string(float_format=lambda value: f"{value:.{digits}f}")
