"""Describe corpus, candidates and rankings of the networks (Entezari 2020, chapters 3 and 4)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from aragorn.errors import InputError
from aragorn.io.collection import select_collection
from aragorn.io.dataset import Dataset
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn.options import option
from aragorn.pipeline.session import CheckpointStore
from aragorn.rankings import rank_by_score, truncate_rankings
from aragorn.storage.checkpoint_directory import METRICS, read_json
from aragorn.systems.catalogue import ENSEMBLE_MEMBERS
from aragorn.systems.conclusions import ConclusionIndex
from aragorn.systems.weighted_sum import PAIR_COLUMNS, WeightedSum, merge_scores
from aragorn_training.evaluation.evaluate import TOUCHE_NDCG, evaluate_run
from aragorn_training.evaluation.plots import NEUTRAL, create_figure, render_png
from aragorn_training.evaluation.significance import bootstrap_means
from aragorn_training.evaluation.similarity import (
    compute_similarity_tables,
    find_system_runs,
    plot_heat_maps,
    select_top_docnos,
)
from aragorn_training.fusion.ensemble import MEMBER_DEPTH
from aragorn_training.options import (
    CheckpointOptions,
    InputOptions,
    QrelsOptions,
    Result,
    StudyOptions,
)

FILE = "networks.csv"
FIRST_COLUMNS = ("item", "row", "measure")
DIGITS = 4
STATISTICS = "statistics.json"  # written by `prepare pairs`
LENGTH_PLOTS = ("conclusion-lengths", "premise-lengths")
ENSEMBLE = "ensemble"  # checkpoint of the networks' weighted sum
EXAMPLE = "corporal punishment"  # in the title of the topic of table A.1
N_SHEET_COLUMNS = 4  # panels per row of the learning curves


class Row(NamedTuple):
    """A value of the table."""

    item: str
    row: str
    measure: str
    value: float | str
    ci_low: float = np.nan
    ci_high: float = np.nan


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, CheckpointOptions, QrelsOptions, InputOptions):
    """Options of the study."""

    runs: Path = option(help="directory with <team>-<system>.txt runs of the topics")


def run(options: Options) -> Result:
    """Describe a corpus, the candidates of its topics, and the rankings of the networks of Entezari
    2020.

    Returns rows `item row measure value ci_low ci_high`, with intervals of means over topics only,
    and plots. Raises InputError if the working directory is not prepared, a run is missing, or no
    topic contains EXAMPLE.
    """
    work_dir = options.work_dir
    checkpoints = options.checkpoint_dir
    qrels = read_qrels(options.qrels)
    statistics = _load_statistics(work_dir)
    dataset = Dataset(*options.inputs)
    runs = _read_runs(options.runs)
    networks = {name: select_top_docnos(run) for name, run in runs.items()}
    similarity = compute_similarity_tables(networks)
    model = CheckpointStore(checkpoints).load_config(ENSEMBLE, WeightedSum)
    rows = [
        *_tabulate_statistics(statistics),
        *_count_candidates(dataset),
        *_tabulate_first_documents(dataset, networks),
        *_tabulate_similarity(similarity),
        *_evaluate({**runs, ENSEMBLE: rank_by_score(_fuse(model, runs), dataset.topics)}, qrels),
    ]
    plots = {name: (work_dir / f"{name}.png").read_bytes() for name in LENGTH_PLOTS}
    plots |= {**plot_heat_maps(similarity), "learning-curves": plot_learning_curves(checkpoints)}
    table = pd.DataFrame(rows)
    table["value"] = [
        value if isinstance(value, str) else f"{value:.4f}" for value in table["value"]
    ]
    return Result(table, plots)


def plot_learning_curves(checkpoints: Path) -> bytes:
    """Plot loss and validation MAP@20 of all networks (Entezari 2020, figures 4.2 to 4.9)."""
    n_rows = -(-len(ENSEMBLE_MEMBERS) // N_SHEET_COLUMNS)
    figure = create_figure(4 * N_SHEET_COLUMNS, 3 * n_rows)
    for name, axes in zip(
        ENSEMBLE_MEMBERS, figure.subplots(n_rows, N_SHEET_COLUMNS).flat, strict=False
    ):
        curve = pd.DataFrame(read_json(checkpoints / name / METRICS)["log"])
        axes.plot(curve["epoch"], curve["MAP@20"], color=NEUTRAL, marker=".")
        axes.set(title=name, ylim=(0, 100), xlabel="epoch", ylabel="validation MAP@20 (%)")
        loss_axes = axes.twinx()
        loss_axes.plot(curve["epoch"], curve["loss"], color="#444444", linestyle="--")
        loss_axes.set(ylabel="training loss (dashed)", ylim=(0, None))
    return render_png(figure)


def _fuse(model: WeightedSum, runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Score the documents of all runs; return `qid docno score`."""
    pairs = pd.concat([run[PAIR_COLUMNS] for run in runs.values()]).drop_duplicates()
    scores = model.normalise(merge_scores(pairs, runs), pairs)
    return pairs.assign(score=model.score(scores))


def _load_statistics(work_dir: Path) -> dict[str, float | dict[str, int]]:
    try:
        statistics: dict[str, float | dict[str, int]]
        statistics = json.loads((work_dir / STATISTICS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fix = "run `aragorn-training prepare pairs -i INPUT`"
        raise InputError(f"{work_dir}: no statistics ({error}); {fix}") from None
    return statistics


def _read_runs(directory: Path) -> dict[str, pd.DataFrame]:
    """Read the top MEMBER_DEPTH documents of the networks' runs, by system."""
    files = find_system_runs(directory)
    if missing := [name for name in ENSEMBLE_MEMBERS if name not in files]:
        raise InputError(
            f"{directory}: no run of {', '.join(missing)}; rank the topics with these systems"
        )
    return {
        name: truncate_rankings(read_run(files[name]), MEMBER_DEPTH) for name in ENSEMBLE_MEMBERS
    }


def _tabulate_statistics(statistics: Mapping[str, float | dict[str, int]]) -> Iterator[Row]:
    for name, value in statistics.items():
        if isinstance(value, dict):
            for rank, (conclusion, count) in enumerate(value.items(), 1):
                yield Row("conclusions", str(rank), "conclusion", conclusion)
                yield Row("conclusions", str(rank), "premises", count)
        else:
            yield Row("statistics", "all", name, value)


def _count_candidates(dataset: Dataset) -> Iterator[Row]:
    """Count the premises per topic that the networks re-rank."""
    index = ConclusionIndex.build(select_collection(dataset.documents)[["docno", "conclusion"]])
    counts = [
        sum(len(index.docnos[conclusion]) for conclusion, _ in index.find_top_conclusions(query))
        for query in dataset.topics["query"]
    ]
    yield Row("candidates", "all", "minimum", min(counts))
    yield Row("candidates", "all", "median", float(np.median(counts)))
    yield Row("candidates", "all", "maximum", max(counts))


def _tabulate_first_documents(
    dataset: Dataset, networks: Mapping[str, Mapping[str, list[str]]]
) -> Iterator[Row]:
    """Tabulate docno and conclusion of each network's first document for the topic EXAMPLE."""
    topics = dataset.topics
    qids = topics.loc[topics["query"].str.lower().str.contains(EXAMPLE, regex=False), "qid"]
    if qids.empty:
        raise InputError(
            f"{dataset.name}: no topic contains {EXAMPLE!r}; use the topics of Touché 2020"
        )
    texts = dataset.documents.drop_duplicates("docno").set_index("docno")
    for name, rankings in networks.items():
        docno = rankings[qids.iloc[0]][0]
        yield Row("first document", name, "docno", docno)
        yield Row("first document", name, "conclusion", str(texts.loc[docno, "conclusion"]))


def _tabulate_similarity(tables: Mapping[str, pd.DataFrame]) -> Iterator[Row]:
    for measure in ("jaccard", "spearman"):
        values = tables[measure].to_dict()
        for first, second in combinations(ENSEMBLE_MEMBERS, 2):
            yield Row("similarity", f"{first}, {second}", measure, values[second][first])


def _evaluate(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame) -> Iterator[Row]:
    """Compute Touché's nDCG@5 of each run, and the number of topics that have a value."""
    for name, run in runs.items():
        values = evaluate_run(run, qrels)[[TOUCHE_NDCG]]
        yield Row("evaluation", name, TOUCHE_NDCG, *bootstrap_means(values).loc[TOUCHE_NDCG])
        yield Row("evaluation", name, "topics", int(values[TOUCHE_NDCG].notna().sum()))
