"""Judgments → a learned fusion's checkpoint: its weights, what they are worth on other topics, and what each feature adds."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from submission.disk.files import make_directory, write_whole
from submission.disk.fingerprint import hashes_by_name
from submission.disk.provenance import CARD, CONFIG, METRICS, dump_json, write_with_provenance
from submission.errors import UsageError
from submission.input.qrels import read_qrels
from submission.systems.catalogue import MEMBERS, missing
from submission.systems.execution import Execution
from submission.systems.remembered import Checkpoints
from training.figures import rounded
from training.fusing.card import PICTURE, WAYS, card
from training.fusing.recipe import RIDGE, Recipe
from training.fusing.ridge import Weights
from training.fusing.trial import Trial
from training.measuring import results
from training.measuring.evaluate import HEADLINES
from training.measuring.overlap import require_overlap
from training.measuring.plots import ablation_plot
from training.measuring.significance import CONFIDENCE, against_baseline, intervals

log = logging.getLogger(__name__)

SAMPLES = 1000  # of topics for the weights' intervals


def fuse(
    name: str, recipe: Recipe, qrels_files: Sequence[tuple[str, Path]], execution: Execution, output: Path, tables: Path
) -> dict[str, pd.DataFrame]:
    """Fit a fusion to all judged topics and write its checkpoint; measure it on topics that it was not fitted to.

    Args:
        name: of the checkpoint and the tables.
        recipe: the members, and how their weights are fitted; those that are tried and whose checkpoints are not there are left
            out.
        qrels_files: with their names, one or two; of two, the labels are a mixture, and both measure.
        execution: on the input that they judge; its working directory keeps the members' lists and the features.
        output: the checkpoint's directory.
        tables: the directory of the tables.

    Returns:
        The tables, each written as CSV: `<name>` (means with intervals), `<name>_tests` (each other run against the fusion),
        `<name>_ablation` (without each feature), `<name>_repeated` (the same, means over several cross-validations),
        `<name>_tried` (with each member that is tried), `<name>_models` (others against the ridge regression), `<name>_weights`
        (with intervals).

    Raises:
        UsageError: more than two qrels, a name that is taken. InputError: malformed files. TrainingError: too few judged
        documents in the pools. CheckpointError: a member's checkpoint is missing or damaged. OutputError: something cannot be
        written.
    """
    recipe = _there(recipe, execution.checkpoints)
    files = dict(qrels_files)
    if len(files) < len(qrels_files) or len(files) > 2:
        names = ", ".join(label for label, _ in qrels_files)
        raise UsageError(f"--qrels {names}: expected one, or two of different names whose labels are mixed")
    features = [*recipe.features, *recipe.tried]
    if name in {*recipe.baselines, *features}:
        raise UsageError(f"{name}: has the name of one of its baselines or features; rename the fusion")
    documents = execution.documents.all_docnos()
    judged = {label: read_qrels(file, documents) for label, file in files.items()}
    for label, qrels in judged.items():
        require_overlap(execution.input, qrels, label)
    trial = Trial(name, recipe, judged, execution)
    fitting = trial.fitting(recipe.features, recipe.fit)
    weights = trial.ridge(fitting.labelled())
    model = recipe.model(trial.made_with, weights.of, weights.intercept)
    values = trial.values(trial.runs())
    variants = trial.variants()
    alone = {feature: trial.measured(trial.table.assign(score=trial.table[feature])) for feature in features}
    found = {
        name: results.bounds(values).reset_index(),
        f"{name}_tests": results.tests(_of({name, *recipe.baselines}, values), name).reset_index(),
        f"{name}_ablation": _changed(variants["ablation"], name, "without", alone),
        f"{name}_repeated": _against(variants["repeated"], name, "without"),
        f"{name}_tried": _changed(variants["tried"], name, "with", alone),
        f"{name}_models": _against(variants["models"], RIDGE, "model"),
        f"{name}_weights": _weights(weights, [trial.ridge(drawn) for drawn in fitting.resampled(SAMPLES)]),
    }
    fitted = trial.values({name: trial.ranked(fitting.scored(weights))})
    metrics = {
        "topics": len(trial.folds),
        "pairs of the pools": len(fitting.labels),
        "pairs fitted to": int((~np.isnan(fitting.labels)).sum()),
        **{way: _rounded(figures, name) for way, figures in zip(WAYS, (values, fitted), strict=True)},
    }
    provenance = {
        "trained on": {"input": execution.input.hashes | hashes_by_name(files)},
        "recipe": msgspec.to_builtins(recipe),
    }
    contents = {
        CONFIG: dump_json(msgspec.to_builtins(model)),
        METRICS: dump_json(metrics),
        CARD: card(name, model, found[f"{name}_weights"], found[f"{name}_models"], metrics, provenance).encode(),
    }
    if len(found[f"{name}_ablation"]):
        contents[PICTURE] = ablation_plot(found[f"{name}_ablation"])
    make_directory(tables)
    for table_name, table in found.items():
        content = table.to_csv(index=False, float_format="%.6f", lineterminator="\n")
        write_whole(tables / f"{table_name}.csv", content)
    write_with_provenance(output, contents, provenance)
    log.info("%s: score = %s", output, model.formula())
    return found


def _there(recipe: Recipe, checkpoints: Checkpoints) -> Recipe:
    """The recipe without the members that are only tried and cannot be computed: their checkpoints are not shipped."""
    lacking = {name: absent for name in recipe.tried if (absent := missing(MEMBERS[name], checkpoints))}
    for name, absent in lacking.items():
        log.warning("%s is not tried: %s has no %s", name, checkpoints.directory, ", ".join(absent))
    return msgspec.structs.replace(recipe, tried=tuple(name for name in recipe.tried if name not in lacking))


def _of(runs: Set[str], values: results.Values) -> dict[str, dict[str, pd.DataFrame]]:
    """The measures of some runs: tests are corrected for the number of systems that the fusion is compared with."""
    return {label: {run: table for run, table in tables.items() if run in runs} for label, tables in values.items()}


def _changed(measured: Mapping[str, pd.DataFrame], name: str, what: str, alone: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Tabulate the gain with or without each feature, tested against the fusion, and the measures of the feature alone."""
    table = _against(measured, name, what)
    table = table[table[what] != name].reset_index(drop=True)
    own = [alone[feature][measure].mean() for feature, measure in zip(table[what], table["measure"], strict=True)]
    return table.assign(alone=own)


def _against(measured: Mapping[str, pd.DataFrame], name: str, what: str) -> pd.DataFrame:
    """Tabulate the headline measures: means, differences from the named baseline with intervals, and tests."""
    first = ["measure", what, "mean", "difference", "low", "high"]
    if len(measured) < 2:
        return pd.DataFrame(columns=first)
    parts = []
    for measure in HEADLINES:
        of = pd.DataFrame({other: values[measure] for other, values in measured.items()})
        bounds = intervals(of.sub(of[name], axis=0)).rename(columns={"mean": "difference"})
        tests = against_baseline({other: of[other] for other in measured}, name).drop(columns="difference")
        table = bounds.assign(measure=measure, mean=of.mean()).join(tests)
        parts.append(table.rename_axis(what).reset_index())
    table = pd.concat(parts, ignore_index=True)
    return table[[*first, *(column for column in table.columns if column not in first)]]


def _weights(weights: Weights, drawn: list[Weights]) -> pd.DataFrame:
    """The weights with their intervals over topics that are drawn anew (percentiles)."""
    tails = [100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2]
    rows = [
        {"feature": "intercept", "weight": weights.intercept},
        *({"feature": f, "weight": w} for f, w in weights.of.items()),
    ]
    samples = np.array([[one.intercept, *one.of.values()] for one in drawn])  # (samples, 1 + F)
    low, high = np.percentile(samples, tails, axis=0)
    return pd.DataFrame(rows).assign(low=low, high=high)


def _rounded(values: Mapping[str, Mapping[str, pd.DataFrame]], run: str) -> dict[str, dict[str, float | None]]:
    return {label: rounded(HEADLINES, tables[run][list(HEADLINES)].mean().to_numpy()) for label, tables in values.items()}
