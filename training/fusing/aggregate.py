"""Networks' scores on validation pairs → a regression over them: least squares (thesis 3.6, 4.5)."""

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
from submission.progress import progress
from submission.scoring.checkpoint import Checkpoint
from submission.systems.catalogue import System
from submission.systems.ensemble import Ensemble
from submission.systems.remembered import Checkpoints
from training.cards import ARGS_ME, card
from training.data.split import RELATED, UNRELATED, VALIDATION
from training.data.tables import load_validation
from training.data.work import made
from training.fitting.validation import by_ranker, measures
from training.measuring.folds import folds

log = logging.getLogger(__name__)

# Of a query's candidates: its related premises, and the first unrelated one of each.
COLUMNS = np.concatenate([np.arange(RELATED), RELATED + np.arange(RELATED) * UNRELATED[VALIDATION]])
TOGETHER = 10  # queries whose candidates are scored at a time
LABELS = np.repeat([1.0, 0.0], RELATED)


def aggregate(
    system: System, work: Path, checkpoints: Checkpoints, output: Path, device: torch.device, positive: bool = False
) -> Regression:
    """Fit a system's regression on validation pairs and write its directory.

    Beside it stand MAP, MRR and nDCG over all candidates of the validation queries: of each member, and of the regression,
    each query by weights that were fitted without its fold.

    Args:
        system: one that fuses; its members are networks.
        work: what `prepare pairs` wrote.
        checkpoints: where the networks' checkpoints are; all of them must be there.
        output: the regression's directory.
        device: where to compute.
        positive: no weight may be below 0.

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
    scores, ties = {}, np.empty(0)
    for name, member in stage.members:
        checkpoint = member.opened(checkpoints)
        if not isinstance(checkpoint, Checkpoint):
            raise UsageError(f"{name} is no network: it has no score for a pair of texts, which the fit needs")
        queries = load_validation(work, checkpoint.ranker.reads, checkpoint.tokeniser)
        ties = queries.ties[queries.candidates]
        score = by_ranker(checkpoint.ranker.to(device), device)
        parts = np.split(np.arange(len(ties)), range(TOGETHER, len(ties), TOGETHER))
        scored = [score(queries, part) for part in progress(parts, name, f"times {TOGETHER} queries")]
        scores[name] = np.concatenate(scored)  # (queries, 105)
        log.info("%s: %d pairs scored, MAP@20 %.1f", name, scores[name].size, measures(scores[name], ties)["MAP@20"])
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


def held_out(scores: Mapping[str, np.ndarray], positive: bool) -> np.ndarray:
    """Compute the scores (queries, 105) of regressions, each query's by one that was fitted without its fold."""
    fold_of = folds(len(next(iter(scores.values()))))
    found = np.empty(next(iter(scores.values())).shape)
    for fold in np.unique(fold_of):
        test = fold_of == fold
        regression, _ = fitted(
            {name: values[~test] for name, values in scores.items()}, {name: {} for name in scores}, positive
        )
        found[test] = regression.added({name: values[test] for name, values in scores.items()})
    return found


def fitted(
    scores: Mapping[str, np.ndarray], made_with: Mapping[str, dict[str, str]], positive: bool = False
) -> tuple[Regression, dict[str, Any]]:
    """The regression, and how well it fits.

    Args:
        scores: (queries, 105) of each member, related premises first; it is fitted to ten of each query.
        made_with: the fingerprints of each member's checkpoints.
        positive: no weight may be below 0.
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
    """Write a regression's directory as a whole. Raises OutputError."""
    contents = {
        CONFIG: dump_json(msgspec.to_builtins(regression)),
        METRICS: dump_json(metrics),
        CARD: card(
            "regression", name=directory.name, regression=regression, metrics=metrics, provenance=provenance, data=ARGS_ME
        ).encode(),
    }
    write_with_provenance(directory, contents, provenance)
