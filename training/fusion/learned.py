"""Fit a learned fusion to judgments and evaluate it by cross-validation."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from submission.data.qrels import read_qrels
from submission.errors import UsageError
from submission.fusion.linear import Linear
from submission.storage.atomic_files import make_directory
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, dump_json, write_with_provenance
from submission.storage.hashing import hashes_by_name
from submission.systems.catalogue import MEMBERS, missing
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Execution
from training.evaluation import tables as result_tables
from training.evaluation.evaluate import HEADLINES
from training.evaluation.overlap import require_overlap
from training.evaluation.plots import ablation_plot
from training.evaluation.significance import CONFIDENCE, against_baseline, intervals
from training.formatting import rounded
from training.fusion.card import PICTURE, WAYS, card
from training.fusion.evaluation import Trial
from training.fusion.labels import Fitting
from training.fusion.learners import Weights
from training.fusion.recipe import RIDGE, Recipe

log = logging.getLogger(__name__)

SAMPLES = 1000  # bootstrap samples of topics for the weights' intervals


def fuse(
    name: str, recipe: Recipe, qrels_files: Sequence[tuple[str, Path]], execution: Execution, output: Path, tables: Path
) -> dict[str, pd.DataFrame]:
    """Fit a fusion to all judged topics, save its checkpoint and evaluate it by cross-validation.

    Args:
        name: Name of the checkpoint and of the tables.
        recipe: Members and fit settings; candidate members without a checkpoint are skipped.
        qrels_files: One or two named qrels files. With two, labels are a weighted mean and both are evaluated.
        execution: Execution on the judged input; its working directory caches rankings and features.
        output: Checkpoint directory.
        tables: Directory of the tables.

    Returns:
        The tables, also written as CSV: `<name>` (means with intervals), `<name>_tests` (each baseline against the fusion),
        `<name>_ablation` (without each feature), `<name>_repeated` (means over repeated cross-validation), `<name>_tried` (with
        each candidate member), `<name>_models` (other models against ridge regression), `<name>_weights` (with bootstrap
        intervals).

    Raises:
        UsageError: If there are more than two qrels files, or the name is taken.
        InputError: If a file is malformed.
        TrainingError: If the pools have too few judged documents.
        CheckpointError: If a member's checkpoint is missing or damaged.
        OutputError: If a file cannot be written.
    """
    recipe = _there(recipe, execution.checkpoints)
    qrels = _read_qrels(name, recipe, qrels_files, execution)
    evaluation = Trial(name, recipe, qrels, execution)
    pool = evaluation.fitting(recipe.features, recipe.fit)
    weights = evaluation.ridge(pool.labelled())
    model = recipe.model(evaluation.made_with, weights.of, weights.intercept)
    held_out = evaluation.values(evaluation.runs())
    frames = _result_tables(evaluation, pool, weights, held_out)
    in_sample = evaluation.values({name: evaluation.ranked(pool.scored(weights))})
    metrics = {
        "topics": len(evaluation.folds),
        "pairs of the pools": len(pool.labels),
        "pairs fitted to": int((~np.isnan(pool.labels)).sum()),
        **{way: _rounded(values, name) for way, values in zip(WAYS, (held_out, in_sample), strict=True)},
    }
    trained_on = {"input": execution.input.hashes | hashes_by_name(dict(qrels_files))}
    provenance = {"trained on": trained_on, "recipe": msgspec.to_builtins(recipe)}
    make_directory(tables)
    for label, frame in frames.items():
        result_tables.write_csv(tables / f"{label}.csv", frame, 6)
    write_with_provenance(output, _contents(name, model, frames, metrics, provenance), provenance)
    log.info("%s: score = %s", output, model.formula())
    return frames


def _read_qrels(name: str, recipe: Recipe, files: Sequence[tuple[str, Path]], execution: Execution) -> dict[str, pd.DataFrame]:
    """Check the names of the fusion and of the qrels files, and read the judgments of the execution's documents."""
    labels = [label for label, _ in files]
    if len(set(labels)) < len(files) or len(files) > 2:
        raise UsageError(f"--qrels {', '.join(labels)}: expected one file, or two files with different names")
    if name in {*recipe.baselines, *recipe.features, *recipe.tried}:
        raise UsageError(f"{name}: is also the name of a baseline or feature; rename the fusion")
    documents = execution.documents.all_docnos()
    qrels = {label: read_qrels(file, documents) for label, file in files}
    for label, frame in qrels.items():
        require_overlap(execution.input, frame, label)
    return qrels


def _result_tables(
    evaluation: Trial, pool: Fitting, weights: Weights, held_out: result_tables.Values
) -> dict[str, pd.DataFrame]:
    """Tabulate the fusion's means, tests, ablation, candidate members, models and weights, by the names of their files."""
    name, recipe, scores = evaluation.name, evaluation.recipe, evaluation.table
    variants = evaluation.variants()
    single_features = {
        feature: evaluation.measured(scores.assign(score=scores[feature])) for feature in (*recipe.features, *recipe.tried)
    }
    compared = _of({name, *recipe.baselines}, held_out)
    return {
        name: result_tables.bounds(held_out).reset_index(),
        f"{name}_tests": result_tables.tests(compared, name).reset_index(),
        f"{name}_ablation": _changed(variants["ablation"], name, "without", single_features),
        f"{name}_repeated": _against(variants["repeated"], name, "without"),
        f"{name}_tried": _changed(variants["tried"], name, "with", single_features),
        f"{name}_models": _against(variants["models"], RIDGE, "model"),
        f"{name}_weights": _weights(weights, [evaluation.ridge(sample) for sample in pool.resampled(SAMPLES)]),
    }


def _contents(
    name: str, model: Linear, tables: Mapping[str, pd.DataFrame], metrics: Mapping[str, Any], provenance: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the files of the checkpoint."""
    readme = card(name, model, tables[f"{name}_weights"], tables[f"{name}_models"], metrics, provenance)
    contents = {CONFIG: dump_json(msgspec.to_builtins(model)), METRICS: dump_json(metrics), CARD: readme.encode()}
    if len(tables[f"{name}_ablation"]):
        contents[PICTURE] = ablation_plot(tables[f"{name}_ablation"])
    return contents


def _there(recipe: Recipe, checkpoints: Checkpoints) -> Recipe:
    """Drop candidate members whose checkpoints are missing."""
    unavailable = {name: absent for name in recipe.tried if (absent := missing(MEMBERS[name], checkpoints))}
    for name, absent in unavailable.items():
        log.warning("Skipping candidate member %s: %s has no checkpoint %s", name, checkpoints.directory, ", ".join(absent))
    return msgspec.structs.replace(recipe, tried=tuple(name for name in recipe.tried if name not in unavailable))


def _of(runs: Set[str], values: result_tables.Values) -> dict[str, dict[str, pd.DataFrame]]:
    """Select the measures of some runs, so that Holm's correction counts only the compared systems."""
    return {label: {run: table for run, table in tables.items() if run in runs} for label, tables in values.items()}


def _changed(measured: Mapping[str, pd.DataFrame], name: str, what: str, alone: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Tabulate the difference that removing or adding each feature makes, and the measures of ranking by that feature alone."""
    table = _against(measured, name, what)
    table = table[table[what] != name].reset_index(drop=True)
    return table.assign(
        alone=[alone[feature][measure].mean() for feature, measure in zip(table[what], table["measure"], strict=True)]
    )


def _against(measured: Mapping[str, pd.DataFrame], name: str, what: str) -> pd.DataFrame:
    """Tabulate means, differences from the baseline with intervals, and p values of the headline measures."""
    leading_columns = ["measure", what, "mean", "difference", "low", "high"]
    if len(measured) < 2:
        return pd.DataFrame(columns=leading_columns)
    tables = []
    for measure in HEADLINES:
        by_run = pd.DataFrame({run: values[measure] for run, values in measured.items()})
        bounds = intervals(by_run.sub(by_run[name], axis=0)).rename(columns={"mean": "difference"})
        tests = against_baseline({run: by_run[run] for run in measured}, name).drop(columns="difference")
        table = bounds.assign(measure=measure, mean=by_run.mean()).join(tests)
        tables.append(table.rename_axis(what).reset_index())
    table = pd.concat(tables, ignore_index=True)
    return table[[*leading_columns, *(column for column in table.columns if column not in leading_columns)]]


def _weights(weights: Weights, drawn: list[Weights]) -> pd.DataFrame:
    """Tabulate the weights with percentile bootstrap intervals over topics."""
    tails = [100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2]
    rows = [
        {"feature": "intercept", "weight": weights.intercept},
        *({"feature": feature, "weight": weight} for feature, weight in weights.of.items()),
    ]
    samples = np.array([[model.intercept, *model.of.values()] for model in drawn])  # (samples, 1 + F)
    low, high = np.percentile(samples, tails, axis=0)
    return pd.DataFrame(rows).assign(low=low, high=high)


def _rounded(values: Mapping[str, Mapping[str, pd.DataFrame]], run: str) -> dict[str, dict[str, float | None]]:
    return {label: rounded(HEADLINES, tables[run][list(HEADLINES)].mean().to_numpy()) for label, tables in values.items()}
