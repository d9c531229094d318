"""Retrain a checkpoint from its data and recipe and compare its metrics with the stored ones."""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from aragorn.errors import ReproductionError, UsageError, escape_undecodable
from aragorn.inference.checkpoint_io import WEIGHTS_FILE
from aragorn.models.bert import BERTNetwork
from aragorn.storage.checkpoint_directory import METRICS, PROVENANCE, read_json, verify_files
from aragorn.systems.catalogue import SYSTEMS
from aragorn.systems.ensemble import EnsembleStage
from aragorn.systems.execution import CheckpointStore

from aragorn_training.data import word_vectors
from aragorn_training.data.pairs import reproduce_pairs
from aragorn_training.fitting.fit import fit
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.formatting import CROSS_VALIDATED
from aragorn_training.fusion.ensemble import fit_ensemble
from aragorn_training.paths import RECIPES
from aragorn_training.tasks import load_recipe

log = logging.getLogger(__name__)

# maximum differences in percentage points, explained by rounding (OK) or by training on another
# machine (near)
OK_TOLERANCE, NEAR_TOLERANCE = 0.1, 2.0
# verdicts on metrics that are not comparable
OTHER_DATA, OTHER_RECIPE = "other data", "other recipe"


def reproduce_checkpoint(
    recipe_name: str, data_dir: Path, work_dir: Path, checkpoint_dir: Path, device: torch.device
) -> tuple[pd.DataFrame, str]:
    """Retrain a checkpoint in a working directory and compare its metrics with those of the stored
    one.

    Finished steps are reused. Data and vector settings are taken from the stored checkpoint.

    Args:
        recipe_name: Name of a recipe or of an ensemble system, or .toml file, whose stem names the
            checkpoint.
        data_dir: Directory of the corpus or of the published data sets that the checkpoint was
            trained on.
        work_dir: Working directory; the new checkpoint is in `work_dir`/checkpoints.
        checkpoint_dir: Directory of the stored checkpoint; an ensemble is fitted to the networks in
            it.
        device: Device to compute on.

    Returns:
        The table of `compare_metrics`, and a line that says whether the weights are identical
        (empty for an ensemble).

    Raises:
        ReproductionError: If a metric is missing or differs by more than NEAR_TOLERANCE.
        UsageError: If the training data cannot be prepared again, the recipe differs from that of
            the stored checkpoint, or the word vectors were read from a file.
    """
    name = escape_undecodable(Path(recipe_name).stem)
    system = SYSTEMS.get(name)
    ensemble = system if system and isinstance(system.stage, EnsembleStage) else None
    if not ensemble and not recipe_name.endswith(".toml"):
        _check_reproducible(name, checkpoint_dir)
    stored_dir = checkpoint_dir / (ensemble.stage.checkpoint or name if ensemble else name)
    hashes = verify_files(stored_dir, {METRICS})
    provenance = read_json(stored_dir / PROVENANCE)
    training_inputs = provenance["training_data"]
    output = work_dir / "checkpoints" / stored_dir.name
    if ensemble:
        data_hashes = reproduce_pairs(data_dir, work_dir, training_inputs)
        has_same_data = _compare_data(training_inputs["input"], data_hashes)
        fit_ensemble(
            ensemble,
            work_dir,
            CheckpointStore(checkpoint_dir),
            output,
            device,
            provenance.get("non_negative", False),
        )
    else:
        recipe = load_recipe(recipe_name)
        if changes := list_recipe_changes(provenance["recipe"], recipe.to_provenance()):
            fix = "pass the recipe file of the checkpoint, or train another checkpoint with `fit`"
            raise UsageError(
                f"{name}: the recipe differs from that of {stored_dir}: {'; '.join(changes)}; {fix}"
            )
        try:
            data_hashes = recipe.task.prepare_again(data_dir, work_dir, training_inputs)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
        has_same_data = _compare_data(training_inputs["input"], data_hashes)
        _retrain(recipe, provenance, work_dir, output, device)
    table = compare_metrics(read_json(stored_dir / METRICS), read_json(output / METRICS))
    if not has_same_data:
        table["verdict"] = OTHER_DATA
    is_identical = hashes.get(WEIGHTS_FILE) == read_json(output / PROVENANCE)["files"].get(
        WEIGHTS_FILE
    )
    weights_result = (
        f"weights: {'identical' if is_identical else 'different'}" if WEIGHTS_FILE in hashes else ""
    )
    if (table["verdict"] == "FAIL").any():
        raise ReproductionError(f"{name}: not reproduced\n{table.to_string()}\n{weights_result}")
    return table, weights_result


def _check_reproducible(name: str, checkpoint_dir: Path) -> None:
    """Raise UsageError, which lists the reproducible networks, unless there are a recipe and a
    checkpoint with this name."""
    names = {file.stem for file in RECIPES.glob("*.toml")} & {
        path.name for path in checkpoint_dir.glob("*/")
    }
    if name not in names:
        fix = (
            f"expected an ensemble, or a network with a recipe and a checkpoint in {checkpoint_dir}: "
            f"{', '.join(sorted(names))}"
        )
        raise UsageError(
            f"{name}: cannot be reproduced; {fix}; run `fuse` for fusions and `tune` for tuned parameters"
        )


def select_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return a checkpoint's metrics in percent: a network's of the validation, tuned or fused
    parameters' cross-validated."""
    if "validation" in metrics:
        return dict(metrics["validation"])
    if CROSS_VALIDATED not in metrics:
        return {"R² · 100": 100 * metrics["R²"]}
    values = metrics[CROSS_VALIDATED]
    # whose metrics are grouped by the names of the qrels
    is_fusion = isinstance(next(iter(values.values())), dict)
    by_qrels = values if is_fusion else {"": values}
    return {
        f"{name} {measure}".strip(): 100 * value
        for name, means in by_qrels.items()
        for measure, value in means.items()
        if value is not None
    }


def compare_metrics(stored: Mapping[str, Any], reproduced: Mapping[str, Any]) -> pd.DataFrame:
    """Tabulate two checkpoints' metrics in percent, as `stored reproduced difference verdict` (OK,
    near or FAIL)."""
    table = pd.DataFrame(
        {"stored": select_metrics(stored), "reproduced": select_metrics(reproduced)}, dtype=float
    )
    table["difference"] = table["reproduced"] - table["stored"]
    distance = table["difference"].abs()  # NaN if one of the checkpoints lacks the metric: FAIL
    table["verdict"] = np.select(
        [distance <= OK_TOLERANCE, distance <= NEAR_TOLERANCE], ["OK", "near"], "FAIL"
    )
    return table


def _retrain(
    recipe: Recipe,
    provenance: Mapping[str, Any],
    work_dir: Path,
    output: Path,
    device: torch.device,
) -> None:
    if not issubclass(recipe.network_class, BERTNetwork):
        vectors = provenance["vectors"]
        if (file_hash := vectors["vectors_file"]) != "none":
            fix = f"run `aragorn-training prepare vectors --work-dir {work_dir} --from-file FILE` and `fit` instead"
            raise UsageError(
                f"{output.name}: trained on word vectors from a file (SHA-256 {file_hash[:12]}…); {fix}"
            )
        settings = {
            key: vectors[key] for key in asdict(word_vectors.VectorSettings()) if key in vectors
        }
        word_vectors.prepare_vectors(
            work_dir, work_dir / "vectors", word_vectors.VectorSettings(**settings), None, False
        )
    initial_name = recipe.initial_checkpoint
    if initial_name and not (output.parent / initial_name).is_dir():
        log.info(
            "%s is initialised from %s; training %s first", output.name, initial_name, initial_name
        )
        fit(
            initial_name,
            load_recipe(initial_name),
            work_dir,
            work_dir / "vectors",
            output.parent / initial_name,
            device,
        )
    fit(output.name, recipe, work_dir, work_dir / "vectors", output, device)


def _compare_data(old_hashes: Mapping[str, str], hashes: Mapping[str, str]) -> bool:
    """Return whether the hashes of data files, by file name, are equal; if not, warn about the
    differing files."""
    changed_files = sorted(
        name for name in {*old_hashes, *hashes} if old_hashes.get(name) != hashes.get(name)
    )
    if changed_files:
        message = "Training data differ from those of the stored checkpoint (%s): the metrics will not be comparable"
        log.warning(message, ", ".join(changed_files))
    return not changed_files


def list_recipe_changes(stored_recipe: Mapping[str, Any], recipe: Mapping[str, Any]) -> list[str]:
    """Describe the settings that differ between the recipes of two provenances; settings added
    since are not compared."""
    changes, current_values = [], json.loads(json.dumps(recipe))
    for key, value in stored_recipe.items():
        fields = value.items() if isinstance(value, dict) else [(None, value)]
        for field, old_value in fields:
            new_value = (
                current_values.get(key) if field is None else current_values.get(key, {}).get(field)
            )
            if key != "name" and new_value != old_value:
                setting = key if field is None else f"{key}.{field}"
                changes.append(f"{setting} was {old_value}, is now {new_value}")
    return changes
