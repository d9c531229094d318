"""Networks' scores on validation pairs → the ensemble: ordinary least squares over normalised scores (thesis 3.6, 4.5)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from sklearn.linear_model import LinearRegression

from submission.checkpoint import CARD, CONFIG, METRICS, PROVENANCE, open_checkpoint
from submission.ensemble import Ensemble, Member
from submission.errors import CheckpointError
from submission.files import write_directory
from submission.rankers import find, names
from submission.rankers.base import LatentRanker
from training.protocol import RELATED, UNRELATED, VALIDATION
from training.tables import load_validation
from training.validation import by_ranker
from training.work import read_record

log = logging.getLogger(__name__)

# Of a query's candidates: its related premises, and the first unrelated one of each.
COLUMNS = np.concatenate([np.arange(RELATED), RELATED + np.arange(RELATED) * UNRELATED[VALIDATION]])
LABELS = np.repeat([1.0, 0.0], RELATED)


def networks() -> list[str]:
    """The rankers that are aggregated: all that re-rank candidates."""
    return [name for name in names() if not issubclass(find(name), LatentRanker)]


def aggregate(work: Path, checkpoints: Path, output: Path, device: torch.device) -> Ensemble:
    """Fit the ensemble on validation pairs and write its directory.

    Args:
        work: what `prepare` wrote.
        checkpoints: where the networks' checkpoints are; all of them must be there.
        output: the ensemble's directory.
        device: where to compute.

    Raises:
        CheckpointError: networks without a checkpoint, all named. InputError: nothing prepared.
        OutputError: it cannot be written.
    """
    missing = [name for name in networks() if not (checkpoints / name).is_dir()]
    if missing:
        raise CheckpointError(f"{checkpoints}: no checkpoint of {', '.join(missing)}; `python -m training fit` makes one")
    scores, fingerprints = {}, {}
    for name in networks():
        checkpoint = open_checkpoint(checkpoints / name)
        queries = load_validation(work, checkpoint.ranker.form, checkpoint.encoder)
        chosen = replace(queries, candidates=queries.candidates[:, COLUMNS])
        everything = np.arange(len(chosen.candidates))
        scores[name] = by_ranker(checkpoint.ranker.to(device), device)(chosen, everything)  # (queries, 10)
        fingerprints[name] = checkpoint.fingerprint
        log.info("%s: %d pairs scored", name, scores[name].size)
    ensemble, metrics = fitted(scores, fingerprints)
    prepared = read_record(work)
    write_ensemble(output, ensemble, metrics, {"trained on": prepared["fingerprint"]})
    log.info("%s: R² %.3f on %d pairs; score = %s", output, metrics["R²"], metrics["pairs"], ensemble.formula())
    return ensemble


def fitted(scores: Mapping[str, np.ndarray], fingerprints: Mapping[str, str]) -> tuple[Ensemble, dict[str, Any]]:
    """The regression, and how well it fits.

    Args:
        scores: (queries, 10) of each network, related premises first.
        fingerprints: of the networks' checkpoints.
    """
    ranges = {name: (float(values.min()), float(values.max())) for name, values in scores.items()}
    members = [Member(name, fingerprints[name], 0.0, *ranges[name]) for name in scores]
    features = np.stack([member.normalised(scores[member.name].ravel().astype(float)) for member in members], axis=1)
    labels = np.tile(LABELS, len(features) // len(LABELS))
    model = LinearRegression().fit(features, labels)
    members = [replace(member, coefficient=float(value)) for member, value in zip(members, model.coef_, strict=True)]
    metrics = {"pairs": len(labels), "R²": round(float(model.score(features, labels)), 4)}
    return Ensemble(float(model.intercept_), tuple(members)), metrics


def write_ensemble(directory: Path, ensemble: Ensemble, metrics: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
    """Write an ensemble's directory as a whole. Raises OutputError."""
    contents = {
        CONFIG: msgspec.json.format(msgspec.json.encode(ensemble), indent=1) + b"\n",
        METRICS: msgspec.json.format(msgspec.json.encode(metrics), indent=1) + b"\n",
        CARD: _card(ensemble, metrics, provenance).encode(),
    }
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    contents[PROVENANCE] = msgspec.json.format(msgspec.json.encode({**provenance, "files": hashes}), indent=1) + b"\n"
    write_directory(directory, contents)


def _card(ensemble: Ensemble, metrics: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    rows = [asdict(member) for member in ensemble.members]
    lines = [
        "# ensemble",
        "",
        "A linear regression over the networks' scores, each brought to [0, 1] by its range on the pairs of the fit; made by",
        "`python -m training aggregate`. A document that a network does not list among its best 100 gets 0 from it.",
        "",
        f"Intercept {ensemble.intercept:.6f}",
        "",
        "| network | coefficient | minimum | maximum | checkpoint |",
        "|---|---|---|---|---|",
        *(
            f"| {r['name']} | {r['coefficient']:.6f} | {r['minimum']:.6f} | {r['maximum']:.6f} | {r['fingerprint'][:12]} |"
            for r in rows
        ),
        "",
        *(f"- {name}: {value}" for name, value in metrics.items()),
        "",
        "Fitted on args.me arguments (Webis, CC BY 4.0), labelled by distant supervision; these files (SHA-256):",
        "",
        *(f"- `{name}` {digest}" for name, digest in provenance["trained on"]["input"].items()),
    ]
    return "\n".join(lines) + "\n"
