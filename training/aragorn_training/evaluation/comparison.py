"""Compare two runs of the same topics: changed rankings and scores, and, with qrels, differences of
measures."""

import filecmp
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.errors import InputError, abbreviate_list, escape_name, pluralise
from aragorn.io import Order
from aragorn.io.runs import find_run, list_other_runs
from aragorn_training.evaluation.evaluate import evaluate_run
from aragorn_training.evaluation.overlap import raise_no_common_topic, read_restricted_run
from aragorn_training.evaluation.significance import (
    TOLERANCE,
    bootstrap_means,
    compare_with_baseline,
)
from aragorn_training.evaluation.similarity import find_system_runs, spearman

KEYS = ["qid", "docno"]


@dataclass(frozen=True)
class RunComparison:
    """Differences of two runs, see `compare_rankings`."""

    names: tuple[str, str]
    tags: tuple[str, str]  # of the systems, if the runs have tags
    topics: pd.DataFrame  # counts per common topic, by qid
    # qid docno rank_a score_a rank_b score_b of documents whose ranks differ; NaN: not in this run
    moves: pd.DataFrame
    # topics of the first run only, and of the second only
    topics_of_one_run: tuple[list[str], list[str]]
    max_score_difference: float  # over documents in both runs
    n_score_differences: int  # number of documents in both runs whose scores differ
    # between the first run's scores at the two ranks of a moved document; NaN if none has moved
    max_score_gap: float

    def format_line(self) -> str:
        """Format the number of different rankings, or the size of the score differences."""
        first_ranks = self.topics["first_rank"].dropna()
        if len(first_ranks):
            counts = f"{len(first_ranks)} of {len(self.topics)} rankings differ"
            return f"{counts}, first at rank {first_ranks.min():.0f}"
        n = self.n_score_differences
        if not n:
            return "equal rankings"
        scores = f"{pluralise(n, 'score')} {'differs' if n == 1 else 'differ'}"
        return f"equal rankings; {scores} by at most {self.max_score_difference:.2g}"

    def format_summary(self) -> str:
        """Format counts of topics, documents and rankings, and the size of score differences."""
        lines = []
        if self.tags[0] != self.tags[1]:
            systems = {tag.partition("-")[2] for tag in self.tags}
            difference = "tags" if len(systems) == 1 and "" not in systems else "systems"
            lines.append(f"different {difference}: {self.tags[0]} and {self.tags[1]}")
        lines.append(f"topics: {len(self.topics)} in both runs")
        for name, qids in zip(self.names, self.topics_of_one_run, strict=True):
            if qids:
                lines.append(f"topics only in {name} ({len(qids)}): {abbreviate_list(qids)}")
        totals = self.topics[["shared", "entered", "left", "moved"]].sum()
        lines.append(
            f"documents in both runs: {totals['shared']}; largest score difference: "
            f"{self.max_score_difference:.2g}"
        )
        correlations = self.topics["correlation"].dropna()
        first_ranks = self.topics["first_rank"].dropna()
        lines.append(self.format_line())
        if first_ranks.empty:
            return "\n".join(lines)
        if len(correlations):
            lowest = f"lowest {correlations.min():.3f} (topic {correlations.idxmin()})"
            lines.append(
                "rank correlation of documents in both runs (Spearman): mean "
                f"{correlations.mean():.3f}, {lowest}"
            )
        lines.append(
            f"documents moved: {totals['moved']}, entered: {totals['entered']}, left: "
            f"{totals['left']}"
        )
        if totals["moved"]:
            lines.append(
                f"scores of {self.names[0]} at the two ranks of a moved document differ by at most "
                f"{self.max_score_gap:.2g}"
            )
        return "\n".join(lines)


def compare_rankings(
    first: pd.DataFrame, second: pd.DataFrame, names: tuple[str, str]
) -> RunComparison:
    """Compare two runs `qid docno score`, in rank order, topic by topic; raise InputError if they
    have no common topic, or no common document for a topic.

    Columns of `topics`: `shared`, the number of documents in both runs; `entered` and `left`, of
    those only in the second and only in the first run; `moved`, of shared documents with another
    rank; `first_rank`, the first rank at which the documents differ (NaN for identical rankings);
    `correlation`, Spearman's rank correlation of the shared documents (NaN for fewer than three).
    """
    run_a, run_b = (
        run.assign(rank=run.groupby("qid").cumcount() + 1)[[*KEYS, "rank", "score"]]
        for run in (first, second)
    )
    qids_a, qids_b = (list(dict.fromkeys(run["qid"])) for run in (first, second))
    common_qids = {*qids_a} & {*qids_b}
    common = [qid for qid in qids_a if qid in common_qids]
    if not common:
        raise_no_common_topic(qids_a, qids_b, *names)
    pairs = run_a.merge(run_b, on=KEYS, how="outer", suffixes=("_a", "_b"))
    pairs = pairs[pairs["qid"].isin(common)]
    is_new = pairs["rank_a"].isna()
    is_missing = pairs["rank_b"].isna()
    is_shared = ~is_new & ~is_missing
    if not is_shared.any():
        raise InputError(
            f"{names[0]} and {names[1]}: no common document for any topic; compare runs over the "
            "same corpus"
        )
    is_changed = pairs["rank_a"] != pairs["rank_b"]  # also if one of them is NaN
    is_moved = is_shared & is_changed
    best_rank = pairs[["rank_a", "rank_b"]].min(axis=1)
    flags = {"shared": is_shared, "entered": is_new, "left": is_missing, "moved": is_moved}
    topics = pd.DataFrame(flags).groupby(pairs["qid"]).sum()
    topics["first_rank"] = best_rank.where(is_changed).groupby(pairs["qid"]).min()
    docnos_a, docnos_b = (run.groupby("qid")["docno"].agg(list) for run in (first, second))
    correlations = {qid: spearman(docnos_a[qid], docnos_b[qid]) for qid in common}
    topics["correlation"] = pd.Series(correlations, dtype=float)
    changes = pairs.assign(best=best_rank)[is_changed].sort_values(["qid", "best", "docno"])
    score_differences = (pairs["score_a"] - pairs["score_b"]).abs()
    # the first run's scores at both ranks of a document
    crossed = pairs[is_moved].merge(run_a, left_on=["qid", "rank_b"], right_on=["qid", "rank"])
    tag_a, tag_b = (str(run["tag"].iloc[0]) if "tag" in run else "" for run in (first, second))
    only_a, only_b = ([qid for qid in qids if qid not in common_qids] for qids in (qids_a, qids_b))
    return RunComparison(
        names,
        (tag_a, tag_b),
        topics.loc[common],
        changes.drop(columns="best").reset_index(drop=True),
        (only_a, only_b),
        float(score_differences.max()),
        int((score_differences > 0).sum()),
        float((crossed["score_a"] - crossed["score"]).abs().max()),
    )


def find_runs(directory: Path) -> dict[str, Path]:
    """Return the runs of a directory by system, or by file name if no name has one."""
    if runs := find_system_runs(directory):
        return runs
    names = [find_run(directory).name, *list_other_runs(directory)]
    return {escape_name(name.partition(".")[0]): directory / name for name in names}


def compare_directories(
    first: Mapping[str, Path],
    second: Mapping[str, Path],
    names: tuple[str, str],
    order: Order,
    docnos: Set[str] | None,
) -> Iterator[str]:
    """Compare the runs of two directories by system, see `find_runs`, without documents outside a
    collection (None: any); yield a line per system."""
    systems = sorted({*first, *second})
    width = max(map(len, systems), default=0)
    for system in systems:
        if system not in second:
            text = f"only in {names[0]}"
        elif system not in first:
            text = f"only in {names[1]}"
        elif filecmp.cmp(first[system], second[system], shallow=False):
            text = "equal bytes"
        else:
            run_a, run_b = (
                read_restricted_run(runs[system], order, docnos) for runs in (first, second)
            )
            if run_a.merge(run_b, on=KEYS).empty:
                text = "no document in common"
            else:
                text = compare_rankings(run_a, run_b, names).format_line()
        yield f"{system:{width}}  {text}"


def evaluate_common_topics(
    first: pd.DataFrame, second: pd.DataFrame, qrels: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Evaluate two runs on their common topics; return the measures of each run by topic."""
    # else a missing topic would count as 0
    qrels = qrels[qrels["qid"].isin(set(first["qid"]) & set(second["qid"]))]
    return evaluate_run(first, qrels), evaluate_run(second, qrels)


def compare_measures(values_a: pd.DataFrame, values_b: pd.DataFrame) -> pd.DataFrame:
    """Compare two runs by all measures, each over the topics on which it is defined for both runs.

    Returns:
        One row per measure: `n` topics, means `a` and `b`, the mean `difference` (second minus
        first) with its 95 % bootstrap interval `low high`, two-sided `p` of the paired
        randomisation test, and the numbers of topics `better worse tied`.
    """
    intervals = bootstrap_means(values_b - values_a)
    rows = {}
    for measure in map(str, values_a.columns):
        pairs = pd.DataFrame({"a": values_a[measure], "b": values_b[measure]}).dropna()
        differences = (pairs["b"] - pairs["a"]).to_numpy(float)
        test = compare_with_baseline({"a": pairs["a"], "b": pairs["b"]}, "a").loc["b"]
        rows[measure] = {
            "n": len(pairs),
            "a": pairs["a"].mean(),
            "b": pairs["b"].mean(),
            "difference": test["difference"],
            "low": intervals.at[measure, "ci_low"],
            "high": intervals.at[measure, "ci_high"],
            "p": test["p_randomisation"],
            "better": int((differences > TOLERANCE).sum()),
            "worse": int((differences < -TOLERANCE).sum()),
            "tied": int((np.abs(differences) <= TOLERANCE).sum()),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("measure")
