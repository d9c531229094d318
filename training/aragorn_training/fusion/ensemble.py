"""Fit an ensemble: linear regression over networks' scores (Entezari 2020, sections 3.6, 4.5)."""

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from aragorn import __version__
from aragorn.cache import Parts
from aragorn.engine import choose_device
from aragorn.errors import CheckpointError, UsageError
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.pipeline.session import CheckpointStore
from aragorn.progress import track
from aragorn.storage.atomic_files import get_printable_name
from aragorn.systems.catalogue import ENSEMBLES
from aragorn.systems.fusion import EnsembleStage
from aragorn.systems.weighted_sum import Member, WeightedSum
from aragorn.versions import describe_versions
from aragorn_training.cards import write_fitted
from aragorn_training.data.corpora import format_credit
from aragorn_training.data.distant_supervision import CandidateSettings
from aragorn_training.data.pair_tables import load_validation_queries
from aragorn_training.data.split import NEGATIVES_PER_ARGUMENT, POSITIVES, VALIDATION
from aragorn_training.data.work_directory import hash_json, lock_run, read_prepared_manifest
from aragorn_training.evaluation.folds import assign_folds
from aragorn_training.fitting.validation import build_ranker_scorer, measure_candidates
from aragorn_training.fusion import Options
from aragorn_training.fusion.learners import fit_linear
from aragorn_training.options import get_checkpoint_output

VERSION = 1  # of models fitted to the same scores
COMPUTES_WITH = (
    "aragorn.systems.weighted_sum",
    "aragorn_training.fitting.validation",
    "aragorn_training.fusion.learners",
)

log = logging.getLogger(__name__)

# Candidates used in the fit: a query's positives and the first negative of each positive.
FIT_CANDIDATES = np.concatenate(
    [np.arange(POSITIVES), POSITIVES + np.arange(POSITIVES) * NEGATIVES_PER_ARGUMENT[VALIDATION]]
)
CANDIDATES = CandidateSettings()
QUERIES_PER_BATCH = 10
MEMBER_DEPTH = 100  # number of a member's top documents that are fused
LABELS = np.repeat([1.0, 0.0], POSITIVES)  # of FIT_CANDIDATES


def fit_ensemble(options: Options) -> None:
    """Fit an ensemble of networks to the validation pairs of `prepare pairs` and save it as a
    checkpoint; its metrics, over all candidates, are its cross-validated MRR, MAP and nDCG, and
    each member's MAP.

    Raises:
        UsageError: If a member cannot score text pairs.
        CheckpointError: If a member has no checkpoint.
        InputError: If the working directory is not prepared.
    """
    stage = ENSEMBLES[options.fusion]
    work_dir = options.work_dir
    non_negative = options.non_negative
    if options.qrels:
        cause = "an ensemble is fitted to the validation pairs in --work-dir"
        raise UsageError(f"fuse {options.fusion}: {cause}; remove --qrels")
    output = get_checkpoint_output(options, stage.checkpoint)
    checkpoints = CheckpointStore(options.checkpoint_dir)
    missing_names = [
        name for name in stage.find_missing_checkpoints(checkpoints) if name != stage.checkpoint
    ]
    if missing_names:
        command = f"aragorn-training fit NAME --work-dir {work_dir} -o {checkpoints.directory}/NAME"
        raise CheckpointError(
            f"{checkpoints.directory}: no checkpoint of {', '.join(missing_names)}; run "
            f"`{command}` for each"
        )
    device = choose_device(options.device)
    with lock_run(output.name, work_dir):
        scores, tie_order = _score_validation(stage, work_dir, checkpoints, device)
    fingerprints = stage.get_member_fingerprints(checkpoints)
    model, metrics = fit_weighted_sum(scores, fingerprints, non_negative)
    validation_metrics = measure_candidates(score_held_out_queries(scores, non_negative), tie_order)
    metrics |= {"validation": validation_metrics, **CANDIDATES.names}
    metrics["members"] = {
        name: measure_candidates(values, tie_order)["MAP@20"] for name, values in scores.items()
    }
    training_data = read_prepared_manifest(work_dir).inputs
    provenance = {"training_data": training_data, "non_negative": non_negative}
    provenance["validation"] = CANDIDATES.names
    card: dict[str, Any] = {"name": get_printable_name(output), "model": model}
    card["data"] = f"{format_credit(training_data)}, labelled by distant supervision"
    write_fitted(output, model, metrics, provenance, "ensemble", **card)
    fit = f"R² {metrics['R²']:.3f} on {metrics['pairs']} pairs"
    map_at_20 = f"cross-validated MAP@20 {validation_metrics['MAP@20']:.1f}"
    log.info("%s: %s, %s; score = %s", output, fit, map_at_20, model.format_formula())


def _score_validation(
    stage: EnsembleStage, work_dir: Path, checkpoints: CheckpointStore, device: str
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return each member's cached scores (queries, candidates) and the candidates' tie order."""
    scores = {}
    inputs = hash_json(read_prepared_manifest(work_dir).inputs)
    for name, member in stage.members:
        checkpoint = member.load_checkpoint(checkpoints)
        if not isinstance(checkpoint, RankerCheckpoint):
            raise UsageError(
                f"{name} is not a network, so it cannot score the validation pairs; remove it from "
                "the ensemble"
            )
        queries = load_validation_queries(
            work_dir, checkpoint.network.token_unit, checkpoint.tokeniser, CANDIDATES
        )
        tie_order = queries.tie_order[queries.candidates]
        scorer = build_ranker_scorer(checkpoint.network.to(device), device)
        versions = describe_versions(
            "aragorn_training.fitting.validation", type(checkpoint.network)
        )
        key = hash_json([checkpoint.fingerprint, versions, inputs, CANDIDATES.names, device])
        parts = Parts(work_dir / f"validation-scores-{name}-{key}")
        n_queries = len(tie_order)
        ends = range(QUERIES_PER_BATCH, n_queries, QUERIES_PER_BATCH)
        batches = np.split(np.arange(n_queries), ends)
        batch_scores = [
            parts.get_or_build_array(f"{batch[0]}", partial(scorer, queries, batch))
            for batch in track(batches, name, f"batches of {QUERIES_PER_BATCH} queries")
        ]
        scores[name] = np.concatenate(batch_scores)
        map_at_20 = measure_candidates(scores[name], tie_order)["MAP@20"]
        log.info("%s: %d pairs scored, MAP@20 %.1f", name, scores[name].size, map_at_20)
    return scores, tie_order


def score_held_out_queries(scores: Mapping[str, np.ndarray], non_negative: bool) -> np.ndarray:
    """Return cross-validated scores (queries, candidates), each by a fit without its fold."""
    held_out_scores = np.empty_like(next(iter(scores.values())), dtype=float)
    fingerprints: dict[str, dict[str, str]] = {name: {} for name in scores}
    folds = assign_folds(len(held_out_scores))
    for fold in np.unique(folds):
        is_in_fold = folds == fold
        train_scores = {name: values[~is_in_fold] for name, values in scores.items()}
        model, _ = fit_weighted_sum(train_scores, fingerprints, non_negative)
        held_out = {name: values[is_in_fold] for name, values in scores.items()}
        held_out_scores[is_in_fold] = model.score(model.min_max_scale(held_out))
    return held_out_scores


def fit_weighted_sum(
    scores: Mapping[str, np.ndarray],
    fingerprints: Mapping[str, dict[str, str]],
    non_negative: bool = False,
) -> tuple[WeightedSum, dict[str, Any]]:
    """Fit a sum of min-max scaled scores to the columns FIT_CANDIDATES of each member's scores
    (queries, candidates), positives first, by least squares, with weights of at least 0 if
    `non_negative`; return it with R² and the number of pairs."""
    scores = {name: values[:, FIT_CANDIDATES] for name, values in scores.items()}
    ranges = {name: (float(part.min()), float(part.max())) for name, part in scores.items()}

    def build_model(intercept: float, weights: Mapping[str, float]) -> WeightedSum:
        members = [
            Member(name, fingerprints[name], MEMBER_DEPTH, weights[name], *ranges[name])
            for name in scores
        ]
        return WeightedSum(__version__, "min_max", intercept, tuple(members))

    scaled_scores = build_model(0.0, dict.fromkeys(scores, 0.0)).min_max_scale(scores)
    features = np.stack([values.ravel() for values in scaled_scores.values()], axis=1)
    labels = np.tile(LABELS, len(features) // len(LABELS))
    regression = LinearRegression(positive=non_negative)
    model = fit_linear(regression, list(scores), features, labels)
    r2 = round(float(r2_score(labels, model.score(features))), 4)
    return build_model(model.intercept, model.weights), {"pairs": len(labels), "R²": r2}
