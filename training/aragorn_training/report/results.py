"""Compute the figures of a report: measures with intervals and tests, recall, similarity and
learning curves."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from aragorn.pipeline.retrieval import iter_components
from aragorn.storage.checkpoint_directory import METRICS, PROVENANCE, read_json
from aragorn.systems.catalogue import SYSTEMS
from aragorn_training.evaluation.evaluate import ALL_MEASURES, HEADLINE_MEASURES, JUDGED, NDCG
from aragorn_training.evaluation.significance import (
    bootstrap_means,
    compare_with_baseline,
    format_mark,
)
from aragorn_training.evaluation.similarity import compute_similarity_tables, select_top_docnos
from aragorn_training.evaluation.tables import order_best_first

RECALL_DEPTHS = (10, 100, 1000)
SIMILARITIES = {"jaccard": "Jaccard index", "spearman": "Spearman correlation"}
# validation measures of the training tasks, in percent; of a log that has several, the first
MEASURES = ("MAP@20", "R²", "F1", "Spearman", "both")


class Evaluation:
    """Evaluation of systems, tested against a baseline, with one qrels file `qid docno rel`;
    `values` are measures (columns) by topic (rows), by system."""

    def __init__(
        self, name: str, qrels: pd.DataFrame, values: Mapping[str, pd.DataFrame], baseline: str
    ) -> None:
        self.name = name
        self.qrels = qrels
        self.values = values
        self.topics = pd.DataFrame({system: table[NDCG] for system, table in values.items()}).T
        base = self.topics.loc[baseline] if baseline in values else self.topics.mean()
        self.differences = self.topics - base
        self.baseline = baseline

    def sort_systems(self, systems: Sequence[str]) -> list[str]:
        """Sort systems by the first headline measure, see `order_best_first`; systems without
        values last."""
        columns = {system: table[HEADLINE_MEASURES[0]] for system, table in self.values.items()}
        values = pd.DataFrame(columns)
        ordered = values.columns[order_best_first(values.mean(), values.count())].to_list()
        return ordered + [system for system in systems if system not in columns]

    def list_values(self) -> pd.DataFrame:
        """List nDCG@5 as rows `system qid value difference qrels`."""
        columns = {"value": self.topics, "difference": self.differences}
        stacked = {name: table.stack(future_stack=True) for name, table in columns.items()}
        rows = pd.DataFrame(stacked).rename_axis(["system", "qid"]).reset_index()
        return rows.assign(qrels=self.name)

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Row of the table of results by system: `cells` of the headline measures (`mean ci_low
        ci_high p mark order`), numbers of topics `n`, `better`, `worse`, and judged share."""
        rows: dict[str, dict[str, Any]] = {}
        for system, table in self.values.items():
            differences = self.differences.loc[system]
            counts = {"better": int((differences > 0).sum()), "worse": int((differences < 0).sum())}
            means = {"n": table[HEADLINE_MEASURES[0]].count(), "judged": table[JUDGED].mean()}
            rows[system] = {"cells": [], **counts, **means}
        for measure in HEADLINE_MEASURES:
            columns = {system: table[measure] for system, table in self.values.items()}
            tests: dict[Any, Any] = {}
            if self.baseline in columns and len(columns) > 1:
                tests = compare_with_baseline(columns, self.baseline).to_dict("index")
            for name, bounds in bootstrap_means(pd.DataFrame(columns)).to_dict("index").items():
                test = tests.get(name, {"p_randomisation_holm": np.nan, "difference": np.nan})
                p = test["p_randomisation_holm"]
                mark = format_mark(test["difference"], p)
                order = columns[str(name)].fillna(0.0).mean()
                rows[str(name)]["cells"].append({**bounds, "p": p, "mark": mark, "order": order})
        return rows

    @cached_property
    def other_means(self) -> pd.DataFrame:
        """Means of further measures (columns) by system."""
        names = [name for name in ALL_MEASURES if name not in (*HEADLINE_MEASURES, JUDGED)]
        means = {system: table[names].mean() for system, table in self.values.items()}
        return pd.DataFrame(means).T


def compute_recall(
    runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, evaluations: Sequence[Evaluation]
) -> pd.DataFrame:
    """Compute the share of the relevant documents in the top of each run: rows `system depth
    recall`, for those of RECALL_DEPTHS that a run reaches.

    Relevant are documents of the topics in the evaluations that have the system; a system without
    evaluation has no rows.
    """
    relevant = qrels.loc[qrels["rel"] > 0, ["qid", "docno"]]
    deepest = max(run["rank"].max() for run in runs.values())
    depths = [depth for depth in RECALL_DEPTHS if depth <= max(deepest, RECALL_DEPTHS[0])]
    rows = []
    for system, run in runs.items():
        tables = [evaluation.topics for evaluation in evaluations if system in evaluation.values]
        expected = relevant[relevant["qid"].isin({qid for table in tables for qid in table})]
        ranks = run.merge(expected)["rank"]
        for depth in depths if tables else ():
            rows.append((system, f"top {depth}", (ranks <= depth).sum() / len(expected)))
    return pd.DataFrame(rows, columns=["system", "depth", "recall"])


def count_candidates(
    runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, candidates: str | None
) -> pd.DataFrame:
    """Count the relevant documents of each topic that the run `candidates`, only others, or none
    retrieve; or, if it is None, any or none: rows `qid found n`."""
    relevant = qrels.loc[qrels["rel"] > 0, ["qid", "docno"]]
    pairs = pd.MultiIndex.from_frame(relevant)
    is_retrieved = {
        system: pairs.isin(pd.MultiIndex.from_frame(run[["qid", "docno"]]))
        for system, run in runs.items()
    }
    is_anywhere = np.any([*is_retrieved.values()], axis=0)
    if candidates:
        is_candidate = is_retrieved[candidates]
        kinds = {
            f"by {candidates}": is_candidate,
            "only by other systems": is_anywhere & ~is_candidate,
        }
    else:
        kinds = {"by a system": is_anywhere}
    kinds["by no system"] = ~is_anywhere
    counts = pd.DataFrame(kinds).groupby(relevant["qid"].to_numpy(), sort=False).sum()
    return counts.rename_axis("qid").reset_index().melt("qid", var_name="found", value_name="n")


def compare_systems(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Compare the rankings of each pair of systems: rows `system other` and SIMILARITIES, ordered
    so that similar systems are neighbours (average linkage of the Jaccard index)."""
    tables = compute_similarity_tables({name: select_top_docnos(run) for name, run in runs.items()})
    systems = list(runs)
    if len(systems) > 2:
        # runs without a common topic are as far as runs without a common document
        distances = squareform(1 - tables["jaccard"].fillna(0.0).to_numpy(), checks=False)
        leaves = leaves_list(linkage(distances, "average", optimal_ordering=True))
        systems = [systems[leaf] for leaf in leaves]
    columns = {
        title: tables[name].loc[systems, systems].stack(future_stack=True)
        for name, title in SIMILARITIES.items()
    }
    return pd.DataFrame(columns).rename_axis(["system", "other"]).reset_index()


def list_checkpoints(system: str) -> list[str]:
    """Return the names of a system's checkpoints; none if the catalogue lacks the system."""
    components = iter_components(SYSTEMS[system].stage) if system in SYSTEMS else ()
    names = (component.checkpoint for component in components if component.checkpoint)
    return [*dict.fromkeys(names)]


def find_fitted(system: str, qrels_hashes: Collection[str], directory: Path) -> Path | None:
    """Return the provenance of a checkpoint of a system that was fitted or tuned to qrels with one
    of these hashes; None if there is none."""
    for name in list_checkpoints(system):
        file = directory / name / PROVENANCE
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        if any(qrels_hash in text for qrels_hash in qrels_hashes):
            return file
    return None


def read_learning_curves(systems: Iterable[str], directory: Path) -> pd.DataFrame:
    """Read the training logs of the systems' networks as rows `network epoch share measure value
    loss`, where `share` is that of all epochs."""
    tables = []
    for name in dict.fromkeys(name for system in systems for name in list_checkpoints(system)):
        file = directory / name / METRICS
        log = pd.DataFrame((read_json(file) if file.is_file() else {}).get("log", []))
        if len(log):
            measure = next(measure for measure in MEASURES if measure in log)
            share = log["epoch"] / log["epoch"].iloc[-1]
            new = {"network": name, "share": share, "measure": measure, "value": log[measure]}
            tables.append(log[["epoch", "loss"]].assign(**new))
    return pd.concat(tables) if tables else pd.DataFrame()
