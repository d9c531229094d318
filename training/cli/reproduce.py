"""Retrain a checkpoint from its data and recipe and compare its metrics with the stored ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from submission.errors import ReproductionError, UsageError
from submission.inference.checkpoint_io import WEIGHTS
from submission.models.bert import BERTNetwork
from submission.storage.checkpoint_directory import METRICS, PROVENANCE, load_json, verified_hashes
from submission.systems.catalogue import SYSTEMS
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.ensemble import Ensemble
from training.data import word_vectors
from training.data.pairs import prepare_again
from training.fitting.fit import fit
from training.fitting.recipe import Recipe
from training.fusion.ensemble import aggregate
from training.tasks import read_recipe

log = logging.getLogger(__name__)

# allowed difference in percentage points: rounding on another machine; training on another machine
OK, NEAR = 0.1, 2.0


def reproduce(
    recipe_name: str, directory: Path, work: Path, checkpoints: Path, device: torch.device
) -> tuple[pd.DataFrame, str]:
    """Retrain a checkpoint in a working directory and compare its metrics with the stored checkpoint.

    Finished steps are reused. Data and vector settings are taken from the stored checkpoint.

    Args:
        recipe_name: Recipe name or .toml file, which is also the checkpoint's name; or an ensemble system.
        directory: Training corpus, or the published data read by `prepare`.
        work: Working directory; the new checkpoint is in `work`/checkpoints.
        checkpoints: Directory of the stored checkpoint; an ensemble is fitted to the networks in it.
        device: Device to compute on.

    Returns:
        One row per metric: `stored reproduced difference verdict` (OK: within 0.1 points; near: within 2; else FAIL), and a
        line that compares the weights.

    Raises:
        CheckpointError: If the stored checkpoint is missing or damaged.
        ReproductionError: If a metric differs by more than 2 points.
        InputError: If the data are missing or malformed.
    """
    name = Path(recipe_name).stem
    system = SYSTEMS.get(name)
    ensemble = system if system and isinstance(system.stage, Ensemble) else None
    stored = checkpoints / (ensemble.stage.checkpoint or name if ensemble else name)
    hashes = verified_hashes(stored, {METRICS})
    provenance = load_json(stored / PROVENANCE)
    training_inputs = provenance["trained on"]
    output = work / "checkpoints" / stored.name
    if ensemble:
        _tell_differences(training_inputs["input"], prepare_again(directory, work, training_inputs))
        aggregate(ensemble, work, Checkpoints(checkpoints), output, device, provenance.get("positive", False))
    else:
        recipe = read_recipe(recipe_name)
        try:
            _tell_differences(training_inputs["input"], recipe.task.prepare(directory, work, training_inputs))
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
        _fit(recipe, provenance, work, output, device)
    table = verdicts(load_json(stored / METRICS), load_json(output / METRICS))
    is_identical = hashes.get(WEIGHTS) == load_json(output / PROVENANCE)["files"].get(WEIGHTS)
    weights = f"weights: {'identical' if is_identical else 'different'}" if WEIGHTS in hashes else ""
    if (table["verdict"] == "FAIL").any():
        raise ReproductionError(f"{name}: not reproduced\n{table.to_string()}\n{weights}")
    return table, weights


def verdicts(stored: Mapping[str, Any], here: Mapping[str, Any]) -> pd.DataFrame:
    """Compare the metrics of two checkpoints in percentage points: `stored reproduced difference verdict`."""
    if "validation" in stored:
        stored_metrics, reproduced_metrics = stored["validation"], here["validation"]
    else:
        stored_metrics, reproduced_metrics = ({"R² · 100": 100 * metrics["R²"]} for metrics in (stored, here))
    table = pd.DataFrame({"stored": stored_metrics, "reproduced": reproduced_metrics})
    table["difference"] = table["reproduced"] - table["stored"]
    table["verdict"] = [_verdict(abs(difference)) for difference in table["difference"]]
    return table


def _verdict(distance: float) -> str:
    return "OK" if distance <= OK else "near" if distance <= NEAR else "FAIL"  # NaN (a metric missing in one of them) is a FAIL


def _fit(recipe: Recipe, provenance: Mapping[str, Any], work: Path, output: Path, device: torch.device) -> None:
    _tell_changes(recipe, provenance["recipe"])
    if not issubclass(recipe.network_class, BERTNetwork):
        vectors = provenance["vectors"]
        if vectors["vectors file"] != "none":
            raise UsageError(
                f"{output.name}: was trained with word vectors from a file (SHA-256 {vectors['vectors file'][:12]}…), "
                "which is not available; it cannot be reproduced"
            )
        settings = {key: vectors[key] for key in asdict(word_vectors.VectorSettings()) if key in vectors}
        word_vectors.embed(work, work / "vectors", word_vectors.VectorSettings(**settings), None, False)
    start = recipe.start
    if start and not (output.parent / start).is_dir():
        log.info("%s starts from %s; training %s first", output.name, start, start)
        fit(start, read_recipe(start), work, work / "vectors", output.parent / start, device)
    fit(output.name, recipe, work, work / "vectors", output, device)


def _tell_differences(stored: Mapping[str, str], here: Mapping[str, str]) -> None:
    if stored != here:
        changed_files = sorted(name for name in {*stored, *here} if stored.get(name) != here.get(name))
        log.warning("Training data differ from those of the stored checkpoint: %s", ", ".join(changed_files))


def _tell_changes(recipe: Recipe, stored: Mapping[str, Any]) -> None:
    """Warn about recipe settings that have changed since training; settings added later have their defaults."""
    current = json.loads(json.dumps(recipe.told()))
    for key, value in stored.items():
        fields = value.items() if isinstance(value, dict) else [(None, value)]
        for field, old in fields:
            new = current.get(key) if field is None else current.get(key, {}).get(field)
            if key != "name" and new != old:
                setting = key if field is None else f"{key}.{field}"
                log.warning("Recipe has changed: %s was %s, is now %s", setting, old, new)
