"""Fit an ensemble: linear regression over networks' scores of validation pairs (Entezari 2020, sections 3.6, 4.5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from sklearn.linear_model import LinearRegression

from submission import __version__
from submission.errors import CheckpointError, UsageError
from submission.fusion.regression import RegressionEnsemble, RegressionMember
from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.progress import track
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, encode_json, write_with_provenance
from submission.systems.catalogue import System
from submission.systems.checkpoint_store import CheckpointStore
from submission.systems.ensemble import EnsembleStage
from training.cards import ARGS_ME_CREDIT, render_card
from training.data.pair_tables import load_validation_queries
from training.data.split import NEGATIVES_PER_ARGUMENT, POSITIVES, VALIDATION
from training.data.work_directory import read_table_record
from training.evaluation.folds import assign_folds
from training.fitting.validation import candidate_metrics, ranker_scorer

log = logging.getLogger(__name__)

# Candidates used in the fit: a query's positives and the first negative of each.
FIT_CANDIDATES = np.concatenate([np.arange(POSITIVES), POSITIVES + np.arange(POSITIVES) * NEGATIVES_PER_ARGUMENT[VALIDATION]])
QUERIES_PER_BATCH = 10  # queries
LABELS = np.repeat([1.0, 0.0], POSITIVES)


def fit_ensemble(
    system: System, work: Path, checkpoints: CheckpointStore, output: Path, device: torch.device, non_negative: bool = False
) -> RegressionEnsemble:
    """Fit an ensemble's regression on validation pairs and save its checkpoint.

    The metrics contain MAP, MRR and nDCG over all candidates of the validation queries, per member and cross-validated for the
    regression.

    Args:
        system: Ensemble system whose members are networks.
        work: Working directory prepared by `prepare pairs`.
        checkpoints: The members' checkpoints.
        output: Checkpoint directory of the regression.
        device: Device to compute on.
        non_negative: Constrain the weights to be non-negative.

    Raises:
        UsageError: If the system is no ensemble or a member cannot score text pairs.
        CheckpointError: If members have no checkpoint.
        InputError: If the working directory is not prepared.
        OutputError: If a file cannot be written.
    """
    stage = system.stage
    if not isinstance(stage, EnsembleStage):
        raise UsageError(f"{system.name} is not an ensemble: it has no members")
    missing = [name for name in system.find_missing_checkpoints(checkpoints) if name != stage.checkpoint]
    if missing:
        names = ", ".join(missing)
        raise CheckpointError(f"{checkpoints.directory}: no checkpoint of {names}; train with `python -m training fit`")
    scores, ties = _score_validation(stage, work, checkpoints, device)
    regression, metrics = fit_regression(scores, stage.get_member_checkpoints(checkpoints), non_negative)
    metrics |= {
        "validation": candidate_metrics(cross_validated_scores(scores, non_negative), ties),
        "members": {name: candidate_metrics(values, ties)["MAP@20"] for name, values in scores.items()},
    }
    save_regression(
        output, regression, metrics, {"training_data": read_table_record(work).inputs, "non_negative": non_negative}
    )
    log.info(
        "%s: R² %.3f on %d pairs, cross-validated MAP@20 %.1f; score = %s",
        output, metrics["R²"], metrics["pairs"], metrics["validation"]["MAP@20"], regression.formula(),
    )  # fmt: skip
    return regression


def _score_validation(
    stage: EnsembleStage, work: Path, checkpoints: CheckpointStore, device: torch.device
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Score the validation candidates with each member; return scores by member and tie breakers, (queries, 105) each."""
    scores, ties = {}, np.empty(0)
    for name, member in stage.members:
        checkpoint = member.load_checkpoint(checkpoints)
        if not isinstance(checkpoint, RankerCheckpoint):
            raise UsageError(f"{name} is not a network: it cannot score a text pair, which the fit requires")
        queries = load_validation_queries(work, checkpoint.network.token_unit, checkpoint.tokeniser)
        ties = queries.tie_order[queries.candidates]
        score = ranker_scorer(checkpoint.network.to(device), device)
        batches = np.split(np.arange(len(ties)), range(QUERIES_PER_BATCH, len(ties), QUERIES_PER_BATCH))
        scores[name] = np.concatenate(
            [score(queries, batch) for batch in track(batches, name, f"batches of {QUERIES_PER_BATCH} queries")]
        )
        log.info("%s: %d pairs scored, MAP@20 %.1f", name, scores[name].size, candidate_metrics(scores[name], ties)["MAP@20"])
    return scores, ties


def cross_validated_scores(scores: Mapping[str, np.ndarray], non_negative: bool) -> np.ndarray:
    """Compute cross-validated regression scores (queries, 105)."""
    fold_of = assign_folds(len(next(iter(scores.values()))))
    fold_scores = np.empty(next(iter(scores.values())).shape)
    for fold in np.unique(fold_of):
        in_fold = fold_of == fold
        regression, _ = fit_regression(
            {name: values[~in_fold] for name, values in scores.items()}, {name: {} for name in scores}, non_negative
        )
        fold_scores[in_fold] = regression.score({name: values[in_fold] for name, values in scores.items()})
    return fold_scores


def fit_regression(
    scores: Mapping[str, np.ndarray], fingerprints: Mapping[str, dict[str, str]], non_negative: bool = False
) -> tuple[RegressionEnsemble, dict[str, Any]]:
    """Fit the regression and return it with its metrics.

    Args:
        scores: Scores (queries, 105) by member, positives first; the fit uses ten candidates per query.
        fingerprints: Checkpoint fingerprints by member.
        non_negative: Constrain the weights to be non-negative.
    """
    scores = {name: values[:, FIT_CANDIDATES] for name, values in scores.items()}
    ranges = {name: (float(values.min()), float(values.max())) for name, values in scores.items()}
    members = [RegressionMember(name, fingerprints[name], 0.0, *ranges[name]) for name in scores]
    features = np.stack([member.min_max_scale(scores[member.name].ravel().astype(float)) for member in members], axis=1)
    labels = np.tile(LABELS, len(features) // len(LABELS))
    model = LinearRegression(positive=non_negative).fit(features, labels)
    members = [replace(member, coefficient=float(value)) for member, value in zip(members, model.coef_, strict=True)]
    metrics = {"pairs": len(labels), "R²": round(float(model.score(features, labels)), 4)}
    return RegressionEnsemble(__version__, float(model.intercept_), tuple(members)), metrics


def save_regression(
    directory: Path, regression: RegressionEnsemble, metrics: Mapping[str, Any], provenance: Mapping[str, Any]
) -> None:
    """Save a regression's checkpoint atomically.

    Raises:
        OutputError: If a file cannot be written.
    """
    contents = {
        CONFIG: encode_json(msgspec.to_builtins(regression)),
        METRICS: encode_json(metrics),
        CARD: render_card(
            "regression",
            name=directory.name,
            regression=regression,
            metrics=metrics,
            provenance=provenance,
            data=ARGS_ME_CREDIT,
        ).encode(),
    }
    write_with_provenance(directory, contents, provenance)
