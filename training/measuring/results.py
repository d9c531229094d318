"""The tables of an evaluation: means with intervals, tests against a baseline, values per topic; printed and as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from submission.disk.files import make_directory, write_whole
from submission.errors import UsageError, nearest
from training.figures import shown
from training.measuring.evaluate import ALL, BPREF, CONDENSED, HEADLINES
from training.measuring.overlap import Overlap
from training.measuring.significance import against_baseline, intervals, limits

Values = Mapping[str, Mapping[str, pd.DataFrame]]  # by qrels and run: measures per topic, as `evaluate` gives them
JUDGED, COMMON = "judged topics", "topics in common"  # what means are over: all that are judged, or those that the run has too
SHARES = ("judged@5", "judged@10")


def bounds(values: Values, overlaps: Sequence[Overlap] = ()) -> pd.DataFrame:
    """Compute means with intervals.

    Args:
        values: measures per topic.
        overlaps: of runs that may lack judged topics; their means are told over the topics in common too.

    Returns:
        Rows (qrels, run, over, measure), columns `topics mean low high`; `topics` counts those on which a measure is defined.
    """
    found = {}
    for (qrels, run, over), table in _parts(values, overlaps).items():
        found[qrels, run, over] = own = intervals(table)
        own.insert(0, "topics", table.notna().sum())
    return pd.concat(found, names=["qrels", "run", "over", "measure"])


def _parts(values: Values, overlaps: Sequence[Overlap]) -> dict[tuple[str, str, str], pd.DataFrame]:
    """Measures per topic by qrels, run, and what their means are over."""
    parts = {}
    lacking = {(overlap.qrels, overlap.run): overlap.common for overlap in overlaps if not overlap.is_whole}
    for qrels, tables in values.items():
        for run, table in tables.items():
            parts[qrels, run, JUDGED] = table
            if (qrels, run) in lacking:
                parts[qrels, run, COMMON] = table.loc[lacking[qrels, run]]
    return parts


def tests(values: Values, baseline: str) -> pd.DataFrame:
    """Test each run against a baseline.

    Returns:
        Rows (qrels, measure, run), columns as `against_baseline` gives them; none for a baseline alone.

    Raises:
        UsageError: the baseline is not among the runs.
    """
    parts = {}
    for qrels, tables in values.items():
        if baseline not in tables:
            raise UsageError(f"baseline {baseline!r}: expected one of the runs; {nearest(baseline, tables)}")
        for measure in next(iter(tables.values())).columns:
            parts[qrels, measure] = against_baseline({run: table[measure] for run, table in tables.items()}, baseline)
    return pd.concat(parts, names=["qrels", "measure", "run"])


def per_topic(values: Values) -> pd.DataFrame:
    """Rows (qrels, run, qid), columns measures."""
    parts = {(qrels, run): table for qrels, tables in values.items() for run, table in tables.items()}
    return pd.concat(parts, names=["qrels", "run", "qid"])


def report(values: Values, overlaps: Sequence[Overlap], baseline: str | None, output: Path | None) -> str:
    """Write the tables as text; with an output also as means.csv, topics.csv and, with a baseline, tests.csv.

    Raises:
        UsageError: an unknown baseline. OutputError: it cannot be written.
    """
    tested = tests(values, baseline) if baseline else None
    parts = ["\n".join(overlap.line() for overlap in overlaps)]
    for qrels in values:
        own = {
            run if over == JUDGED else f"{run}, {COMMON}": table
            for (label, run, over), table in _parts(values, overlaps).items()
            if label == qrels
        }
        parts += [f"{qrels}\n{_headlines(own)}", _two_ways(own), limits(len(next(iter(own.values()))))]
    if tested is not None:
        alone = len(next(iter(values.values()))) < 2
        parts += (
            [f"{baseline} is the only run: there is nothing to test it against"] if alone else _tested(tested, str(baseline))
        )
    if output:
        make_directory(output)
        files = {"means": bounds(values, overlaps), "topics": per_topic(values)}
        for name, table in (files | ({} if tested is None else {"tests": tested})).items():
            write_whole(output / f"{name}.csv", table.to_csv(float_format="%.6f", lineterminator="\n"))
    return "\n\n".join(filter(None, parts))


def _headlines(tables: Mapping[str, pd.DataFrame]) -> str:
    """Tabulate one line per run: nDCG@5 by its three definitions with intervals, numbers of topics, judged shares."""
    rows = {}
    for run, table in tables.items():
        found = intervals(table[[*HEADLINES]])
        row = {measure: _with_interval(*figures) for measure, figures in zip(HEADLINES, found.to_numpy(), strict=True)}
        row |= {"topics": str(len(table)), "of these (Touché)": str(table[HEADLINES[0]].notna().sum())}
        rows[run] = row | {share: f"{table[share].mean():.3f}" for share in SHARES}
    return pd.DataFrame(rows).T.rename_axis("run").to_string()


def _with_interval(mean: float, low: float, high: float) -> str:
    return shown(mean) if np.isnan(low) else f"{mean:.3f} ({low:.3f}–{high:.3f})"  # noqa: RUF001 a range


def _two_ways(tables: Mapping[str, pd.DataFrame]) -> str:
    """The other measures, `condensed` and `all` below each other: one line a run and way."""
    rows = {}
    for run, table in tables.items():
        means = table.mean()
        for way in (CONDENSED, ALL):
            own = means[[name for name in means.index if name.endswith(f" {way}")]]
            rows[run, way] = pd.concat([own.rename(lambda name: name.rpartition(" ")[0]), means[[BPREF]]])
    return _text(pd.DataFrame(rows).T.rename_axis(["run", "documents"]))


def _tested(tested: pd.DataFrame, baseline: str) -> list[str]:
    """The tests of the measures that are told of every run."""
    parts = []
    for (qrels, measure), table in tested.groupby(level=["qrels", "measure"], sort=False):
        if measure in HEADLINES:
            shown = table.droplevel(["qrels", "measure"]).rename_axis(f"{qrels}: {measure}, against {baseline}")
            parts.append(_text(shown, 4))
            untested = shown.index[shown["randomisation"].isna()].tolist()
            if untested:
                parts.append(f"no test for {', '.join(untested)}: the same difference on all topics, or fewer than two")
    return parts


def _text(table: pd.DataFrame, digits: int = 3) -> str:
    return table.to_string(float_format=lambda value: f"{value:.{digits}f}", na_rep="")
