"""Fit a learned fusion to judgments and evaluate it by cross-validation."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from aragorn.errors import UsageError, escape_undecodable
from aragorn.pipeline.session import CheckpointStore
from aragorn.storage.archives import hash_named_files
from aragorn.storage.atomic_files import create_directory
from aragorn.systems.catalogue import FUSION_CANDIDATES
from aragorn.systems.weighted_sum import WeightedSum
from aragorn_training.cards import write_fitted
from aragorn_training.data.corpora import describe_judged_data, format_judged_credit
from aragorn_training.data.retrieval import DatasetRetrieval, open_retrieval
from aragorn_training.evaluation import tables as result_tables
from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES
from aragorn_training.evaluation.plots import plot_ablation
from aragorn_training.evaluation.significance import (
    CONFIDENCE,
    bootstrap_means,
    compare_with_baseline,
)
from aragorn_training.formatting import CROSS_VALIDATED, IN_SAMPLE, round_means
from aragorn_training.fusion import Options
from aragorn_training.fusion.evaluation import FusionEvaluation
from aragorn_training.fusion.learners import LabelledPool, LinearModel
from aragorn_training.fusion.recipe import RIDGE, FusionRecipe, load_fusion_recipe
from aragorn_training.options import get_checkpoint_output

VERSION = 1  # of models fitted to the same scores
COMPUTES_WITH = ("aragorn_training.fusion.evaluation", "scipy")

log = logging.getLogger(__name__)

ABLATION_PLOT = "ablation.png"
EVALUATIONS = (CROSS_VALIDATED, IN_SAMPLE)
N_BOOTSTRAP_SAMPLES = 1000  # number of bootstrap samples of topics, for the weights' intervals


def fit_fusion(options: Options) -> dict[str, pd.DataFrame]:
    """Fit a fusion to all judged topics, save its checkpoint and evaluate it by cross-validation.

    Candidate members without a checkpoint are skipped. With two qrels files, labels are a weighted
    mean and both are evaluated. The tables, see `_build_result_tables`, are also returned.

    Raises:
        UsageError: If there are more than two qrels files, or a baseline or feature has the name of
            the fusion.
        TrainingError: If the pools have too few judged documents.
        CheckpointError: If a member's checkpoint is missing or damaged.
    """
    recipe = load_fusion_recipe(options.fusion)
    if not options.candidates:
        recipe = msgspec.structs.replace(recipe, candidates=())
    name = escape_undecodable(Path(options.fusion).stem)
    output = get_checkpoint_output(options, name)
    with open_retrieval(options, output.parent) as retrieval:
        recipe = _drop_unavailable_candidates(recipe, retrieval.session.checkpoints)
        qrels = _read_qrels(name, recipe, options.qrels, retrieval)
        evaluation = FusionEvaluation(name, recipe, qrels, retrieval)
        pool = evaluation.label_pool(recipe.feature_names, recipe.fit)
        ridge = evaluation.ridge_learner(pool.build_training_set())
        topic_values = evaluation.evaluate_runs(evaluation.rank_for_comparison())
        frames = _build_result_tables(evaluation, pool, ridge, topic_values)
        in_sample = evaluation.evaluate_runs({name: evaluation.to_ranking(pool.score(ridge))})
        hashes = hash_named_files(dict(options.qrels))
        training_data = describe_judged_data(retrieval.dataset, hashes)
    model = recipe.build_model(evaluation.fingerprints, ridge.weights, ridge.intercept)
    metrics: dict[str, Any] = {
        "topics": len(evaluation.folds),
        "pooled pairs": len(pool.labels),
        "training pairs": int((~np.isnan(pool.labels)).sum()),
        CROSS_VALIDATED: _average_topics(topic_values, name),
        IN_SAMPLE: _average_topics(in_sample, name),
    }
    provenance = {"training_data": training_data, "recipe": msgspec.to_builtins(recipe)}
    tables_dir = options.results or options.work_dir / "results"
    create_directory(tables_dir)
    for label, frame in frames.items():
        result_tables.write_csv(tables_dir / f"{label}.csv", frame, 6)
    ablation = frames[f"{name}_ablation"]
    write_fitted(
        output,
        model,
        metrics,
        provenance,
        "fusion",
        {ABLATION_PLOT: plot_ablation(ablation)} if len(ablation) else {},
        data=format_judged_credit(training_data),
        **describe_model(name, model, frames[f"{name}_weights"], frames[f"{name}_learners"]),
    )
    log.info("%s: score = %s", output, model.format_formula())
    return frames


def _average_topics(
    values: result_tables.TopicValues, run: str
) -> dict[str, dict[str, float | None]]:
    """Return the rounded means of a run's headline measures over topics, by qrels."""
    measures = [*HEADLINE_MEASURES]
    return {
        label: round_means(measures, tables[run][measures].mean().to_numpy())
        for label, tables in values.items()
    }


def _read_qrels(
    name: str, recipe: FusionRecipe, files: Sequence[tuple[str, Path]], retrieval: DatasetRetrieval
) -> dict[str, pd.DataFrame]:
    """Check the names of fusion and qrels files; read the judgments of the documents."""
    labels = [label for label, _ in files]
    if len(files) > 2:
        raise UsageError(f"--qrels {', '.join(labels)}: {len(files)} files; pass at most two")
    if len(set(labels)) < len(files):
        raise UsageError(f"--qrels {', '.join(labels)}: equal names; name each file with NAME=FILE")
    if name in {*recipe.baselines, *recipe.feature_names, *recipe.candidates}:
        raise UsageError(f"'{name}' is also the name of a baseline or feature; rename the fusion")
    return retrieval.read_qrels(dict(files))


def _build_result_tables(
    evaluation: FusionEvaluation,
    pool: LabelledPool,
    ridge: LinearModel,
    topic_values: result_tables.TopicValues,
) -> dict[str, pd.DataFrame]:
    """Return the result tables by file name, which begins with the name of the fusion.

    `_means`: means with intervals. `_significance`: each baseline against the fusion. `_ablation`:
    the fusion without each feature; `_ablation_repeated`: the same with repeated cross-validation.
    `_candidates`: the fusion with each candidate, if there are any. `_learners`: other learners
    against ridge regression. `_weights`: weights with bootstrap intervals.
    """
    name = evaluation.name
    recipe = evaluation.recipe
    features = evaluation.table
    variants = evaluation.evaluate_variants()
    single_features = {
        feature: evaluation.evaluate_scores(features.assign(score=features[feature]))
        for feature in (*recipe.feature_names, *recipe.candidates)
    }
    runs = {name, *recipe.baselines}  # Holm's correction counts only these
    selection = {
        label: {run: table for run, table in tables.items() if run in runs}
        for label, tables in topic_values.items()
    }
    bootstrap_models = [*map(evaluation.ridge_learner, pool.bootstrap(N_BOOTSTRAP_SAMPLES))]
    removed = (name, "removed_feature")
    tables = {
        f"{name}_means": result_tables.tabulate_means(topic_values).reset_index(),
        f"{name}_significance": result_tables.tabulate_significance(selection, name).reset_index(),
        f"{name}_ablation": _tabulate_features(variants["ablation"], *removed, single_features),
        f"{name}_ablation_repeated": _tabulate_comparison(variants["ablation_repeated"], *removed),
        f"{name}_learners": _tabulate_comparison(variants["learners"], RIDGE, "learner"),
        f"{name}_weights": _tabulate_weights(ridge, bootstrap_models),
    }
    if recipe.candidates:
        tables[f"{name}_candidates"] = _tabulate_features(
            variants["candidates"], name, "added_member", single_features
        )
    return tables


def _drop_unavailable_candidates(
    recipe: FusionRecipe, checkpoints: CheckpointStore
) -> FusionRecipe:
    """Drop candidate members whose checkpoints are missing, and warn about each."""
    missing_by_name = {
        name: names
        for name in recipe.candidates
        if (names := FUSION_CANDIDATES[name].find_missing_checkpoints(checkpoints))
    }
    for name, names in missing_by_name.items():
        cause = f"{checkpoints.directory} has no checkpoint {', '.join(names)}"
        log.warning("Skipping candidate member %s: %s", name, cause)
    candidates = tuple(name for name in recipe.candidates if name not in missing_by_name)
    return msgspec.structs.replace(recipe, candidates=candidates)


def _tabulate_features(
    values: Mapping[str, pd.DataFrame],
    name: str,
    column: str,
    single_features: Mapping[str, pd.DataFrame],
) -> pd.DataFrame:
    """Tabulate the effect of each feature (`column`), and of ranking by it (`single_feature`)."""
    table = _tabulate_comparison(values, name, column)
    table = table[table[column] != name].reset_index(drop=True)
    cells = zip(table[column], table["measure"], strict=True)
    return table.assign(
        single_feature=[single_features[feature][measure].mean() for feature, measure in cells]
    )


def _tabulate_comparison(
    values: Mapping[str, pd.DataFrame], baseline: str, column: str
) -> pd.DataFrame:
    """Tabulate means, differences from the baseline with intervals, and p values, by measure."""
    leading_columns = ["measure", column, "mean", "difference", "ci_low", "ci_high"]
    if len(values) < 2:
        return pd.DataFrame(columns=leading_columns)
    tables = []
    for measure in HEADLINE_MEASURES:
        by_run = pd.DataFrame({run: table[measure] for run, table in values.items()})
        bounds = bootstrap_means(by_run.sub(by_run[baseline], axis=0))
        bounds = bounds.rename(columns={"mean": "difference"})
        tests = compare_with_baseline({run: by_run[run] for run in values}, baseline)
        tests = tests.drop(columns="difference")
        table = bounds.assign(measure=measure, mean=by_run.mean()).join(tests)
        tables.append(table.rename_axis(column).reset_index())
    table = pd.concat(tables, ignore_index=True)
    return table[[*leading_columns, *table.columns.difference(leading_columns, sort=False)]]


def _tabulate_weights(ridge: LinearModel, bootstrap_models: list[LinearModel]) -> pd.DataFrame:
    """Tabulate the intercept and the weights with percentile bootstrap intervals over topics."""
    percentiles = [100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2]
    rows = [("intercept", ridge.intercept), *ridge.weights.items()]
    # (samples, 1 + F)
    samples = np.array([[model.intercept, *model.weights.values()] for model in bootstrap_models])
    low, high = np.percentile(samples, percentiles, axis=0)
    return pd.DataFrame(rows, columns=["feature", "weight"]).assign(ci_low=low, ci_high=high)


def describe_model(
    name: str, model: WeightedSum, weights: pd.DataFrame, learners: pd.DataFrame
) -> dict[str, Any]:
    """Return the variables of a fusion's card, from its tables of weights and learners."""
    return {
        "name": name,
        "features": model.feature_description,
        "weights": weights.to_dict("records"),
        "pool_depths": model.pool_depths,
        "checkpoints": model.member_fingerprints,
        "learners": {
            learner: rows.set_index("measure").to_dict("index")
            for learner, rows in learners.groupby("learner", sort=False)
        },
        "evaluations": EVALUATIONS,
        "measures": HEADLINE_MEASURES,
        "ablation_plot": ABLATION_PLOT,
    }
