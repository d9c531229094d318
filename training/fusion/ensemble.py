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
from submission.fusion.regression import Member, Regression
from submission.inference.ranker_checkpoint import Checkpoint
from submission.progress import progress
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, dump_json, write_with_provenance
from submission.systems.catalogue import System
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.ensemble import Ensemble
from training.cards import ARGS_ME, card
from training.data.pair_tables import load_validation
from training.data.split import RELATED, UNRELATED, VALIDATION
from training.data.work_directory import made
from training.evaluation.folds import folds
from training.fitting.validation import by_ranker, measures

log = logging.getLogger(__name__)

# Candidates used in the fit: a query's positives and the first negative of each.
COLUMNS = np.concatenate([np.arange(RELATED), RELATED + np.arange(RELATED) * UNRELATED[VALIDATION]])
TOGETHER = 10  # queries
LABELS = np.repeat([1.0, 0.0], RELATED)


def aggregate(
    system: System, work: Path, checkpoints: Checkpoints, output: Path, device: torch.device, positive: bool = False
) -> Regression:
    """Fit an ensemble's regression on validation pairs and save its checkpoint.

    The metrics contain MAP, MRR and nDCG over all candidates of the validation queries, per member and cross-validated for the
    regression.

    Args:
        system: Ensemble system whose members are networks.
        work: Working directory prepared by `prepare pairs`.
        checkpoints: The members' checkpoints.
        output: Checkpoint directory of the regression.
        device: Device to compute on.
        positive: Constrain the weights to be non-negative.

    Raises:
        UsageError: If the system is no ensemble or a member cannot score text pairs.
        CheckpointError: If members have no checkpoint.
        InputError: If the working directory is not prepared.
        OutputError: If a file cannot be written.
    """
    stage = system.stage
    if not isinstance(stage, Ensemble):
        raise UsageError(f"{system.name} is not an ensemble: it has no members")
    missing = [name for name in system.missing(checkpoints) if name != stage.checkpoint]
    if missing:
        names = ", ".join(missing)
        raise CheckpointError(f"{checkpoints.directory}: no checkpoint of {names}; train with `python -m training fit`")
    scores, ties = _score_validation(stage, work, checkpoints, device)
    regression, metrics = fitted(scores, stage.made_with(checkpoints), positive)
    metrics |= {
        "validation": measures(held_out(scores, positive), ties),
        "members": {name: measures(values, ties)["MAP@20"] for name, values in scores.items()},
    }
    write_regression(output, regression, metrics, {"trained on": made(work).decided_by, "positive": positive})
    log.info(
        "%s: R² %.3f on %d pairs, cross-validated MAP@20 %.1f; score = %s",
        output, metrics["R²"], metrics["pairs"], metrics["validation"]["MAP@20"], regression.formula(),
    )  # fmt: skip
    return regression


def _score_validation(
    stage: Ensemble, work: Path, checkpoints: Checkpoints, device: torch.device
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Score the validation candidates with each member; return scores by member and tie breakers, (queries, 105) each."""
    scores, ties = {}, np.empty(0)
    for name, member in stage.members:
        checkpoint = member.opened(checkpoints)
        if not isinstance(checkpoint, Checkpoint):
            raise UsageError(f"{name} is not a network: it cannot score a text pair, which the fit requires")
        queries = load_validation(work, checkpoint.ranker.reads, checkpoint.tokeniser)
        ties = queries.ties[queries.candidates]
        score = by_ranker(checkpoint.ranker.to(device), device)
        batches = np.split(np.arange(len(ties)), range(TOGETHER, len(ties), TOGETHER))
        scores[name] = np.concatenate(
            [score(queries, batch) for batch in progress(batches, name, f"batches of {TOGETHER} queries")]
        )
        log.info("%s: %d pairs scored, MAP@20 %.1f", name, scores[name].size, measures(scores[name], ties)["MAP@20"])
    return scores, ties


def held_out(scores: Mapping[str, np.ndarray], positive: bool) -> np.ndarray:
    """Compute cross-validated regression scores (queries, 105)."""
    fold_of = folds(len(next(iter(scores.values()))))
    fold_scores = np.empty(next(iter(scores.values())).shape)
    for fold in np.unique(fold_of):
        in_fold = fold_of == fold
        regression, _ = fitted(
            {name: values[~in_fold] for name, values in scores.items()}, {name: {} for name in scores}, positive
        )
        fold_scores[in_fold] = regression.added({name: values[in_fold] for name, values in scores.items()})
    return fold_scores


def fitted(
    scores: Mapping[str, np.ndarray], made_with: Mapping[str, dict[str, str]], positive: bool = False
) -> tuple[Regression, dict[str, Any]]:
    """Fit the regression and return it with its metrics.

    Args:
        scores: Scores (queries, 105) by member, positives first; the fit uses ten candidates per query.
        made_with: Checkpoint fingerprints by member.
        positive: Constrain the weights to be non-negative.
    """
    scores = {name: values[:, COLUMNS] for name, values in scores.items()}
    ranges = {name: (float(values.min()), float(values.max())) for name, values in scores.items()}
    members = [Member(name, made_with[name], 0.0, *ranges[name]) for name in scores]
    features = np.stack([member.normalised(scores[member.name].ravel().astype(float)) for member in members], axis=1)
    labels = np.tile(LABELS, len(features) // len(LABELS))
    model = LinearRegression(positive=positive).fit(features, labels)
    members = [replace(member, coefficient=float(value)) for member, value in zip(members, model.coef_, strict=True)]
    metrics = {"pairs": len(labels), "R²": round(float(model.score(features, labels)), 4)}
    return Regression(__version__, float(model.intercept_), tuple(members)), metrics


def write_regression(
    directory: Path, regression: Regression, metrics: Mapping[str, Any], provenance: Mapping[str, Any]
) -> None:
    """Save a regression's checkpoint atomically.

    Raises:
        OutputError: If a file cannot be written.
    """
    contents = {
        CONFIG: dump_json(msgspec.to_builtins(regression)),
        METRICS: dump_json(metrics),
        CARD: card(
            "regression", name=directory.name, regression=regression, metrics=metrics, provenance=provenance, data=ARGS_ME
        ).encode(),
    }
    write_with_provenance(directory, contents, provenance)
