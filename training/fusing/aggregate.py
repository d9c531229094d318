"""Networks' scores on validation pairs → a regression over them: ordinary least squares (thesis 3.6, 4.5)."""

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
from submission.disk.provenance import CARD, CONFIG, METRICS, dump_json, write_with_provenance
from submission.errors import CheckpointError, UsageError
from submission.fusion.regression import Member, Regression
from submission.scoring.checkpoint import Checkpoint
from submission.systems.catalogue import System
from submission.systems.ensemble import Ensemble
from submission.systems.remembered import Checkpoints
from training.cards import ARGS_ME, card
from training.data.protocol import RELATED, UNRELATED, VALIDATION
from training.data.tables import load_validation
from training.data.work import made
from training.fitting.validation import by_ranker

log = logging.getLogger(__name__)

# Of a query's candidates: its related premises, and the first unrelated one of each.
COLUMNS = np.concatenate([np.arange(RELATED), RELATED + np.arange(RELATED) * UNRELATED[VALIDATION]])
LABELS = np.repeat([1.0, 0.0], RELATED)


def aggregate(system: System, work: Path, checkpoints: Checkpoints, output: Path, device: torch.device) -> Regression:
    """Fit a system's regression on validation pairs and write its directory.

    Args:
        system: one that fuses; its members are networks.
        work: what `prepare pairs` wrote.
        checkpoints: where the networks' checkpoints are; all of them must be there.
        output: the regression's directory.
        device: where to compute.

    Raises:
        UsageError: the system fuses nothing, or something that does not score pairs of texts.
        CheckpointError: networks without a checkpoint, all named. InputError: nothing prepared.
        OutputError: it cannot be written.
    """
    stage = system.stage
    if not isinstance(stage, Ensemble):
        raise UsageError(f"{system.name} is no fusion: it has no members to be weighed")
    missing = [name for name in system.missing(checkpoints) if name != stage.checkpoint]
    if missing:
        names = ", ".join(missing)
        raise CheckpointError(f"{checkpoints.directory}: no checkpoint of {names}; `python -m training fit` makes one")
    scores = {}
    for name, member in stage.members:
        checkpoint = member.opened(checkpoints)
        if not isinstance(checkpoint, Checkpoint):
            raise UsageError(f"{name} is no network: it has no score for a pair of texts, which the fit needs")
        queries = load_validation(work, checkpoint.ranker.reads, checkpoint.tokeniser)
        chosen = replace(queries, candidates=queries.candidates[:, COLUMNS])
        everything = np.arange(len(chosen.candidates))
        scores[name] = by_ranker(checkpoint.ranker.to(device), device)(chosen, everything)  # (queries, 10)
        log.info("%s: %d pairs scored", name, scores[name].size)
    regression, metrics = fitted(scores, stage.made_with(checkpoints))
    write_regression(output, regression, metrics, {"trained on": made(work).decided_by})
    log.info("%s: R² %.3f on %d pairs; score = %s", output, metrics["R²"], metrics["pairs"], regression.formula())
    return regression


def fitted(scores: Mapping[str, np.ndarray], made_with: Mapping[str, dict[str, str]]) -> tuple[Regression, dict[str, Any]]:
    """The regression, and how well it fits.

    Args:
        scores: (queries, 10) of each member, related premises first.
        made_with: the fingerprints of each member's checkpoints.
    """
    ranges = {name: (float(values.min()), float(values.max())) for name, values in scores.items()}
    members = [Member(name, made_with[name], 0.0, *ranges[name]) for name in scores]
    features = np.stack([member.normalised(scores[member.name].ravel().astype(float)) for member in members], axis=1)
    labels = np.tile(LABELS, len(features) // len(LABELS))
    model = LinearRegression().fit(features, labels)
    members = [replace(member, coefficient=float(value)) for member, value in zip(members, model.coef_, strict=True)]
    metrics = {"pairs": len(labels), "R²": round(float(model.score(features, labels)), 4)}
    return Regression(__version__, float(model.intercept_), tuple(members)), metrics


def write_regression(
    directory: Path, regression: Regression, metrics: Mapping[str, Any], provenance: Mapping[str, Any]
) -> None:
    """Write a regression's directory as a whole. Raises OutputError."""
    contents = {
        CONFIG: dump_json(msgspec.to_builtins(regression)),
        METRICS: dump_json(metrics),
        CARD: card(
            "regression", name=directory.name, regression=regression, metrics=metrics, provenance=provenance, data=ARGS_ME
        ).encode(),
    }
    write_with_provenance(directory, contents, provenance)
