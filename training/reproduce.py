"""A checkpoint made anew, from its data and its recipe, and compared with the one that is there."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from submission.disk.provenance import METRICS, PROVENANCE, load_json, verified_hashes
from submission.errors import ReproductionError, UsageError
from submission.rankers.bert import BERTNetwork
from submission.scoring.stored import WEIGHTS
from submission.systems.catalogue import SYSTEMS
from submission.systems.ensemble import Ensemble
from submission.systems.remembered import Checkpoints
from training.data import vectors as word_vectors
from training.data.prepare import prepare_again
from training.fitting.fit import fit
from training.fitting.recipe import Recipe
from training.fusing.aggregate import aggregate
from training.tasks import read_recipe

log = logging.getLogger(__name__)

OK, NEAR = 0.1, 2.0  # points of a hundred that a metric may differ by: another machine's rounding; another machine's training


def reproduce(
    recipe_name: str, directory: Path, work: Path, checkpoints: Path, device: torch.device
) -> tuple[pd.DataFrame, str]:
    """Make a checkpoint anew in a working directory, and compare its metrics with the stored one's.

    What is finished there already is used; settings of tables and vectors are those of the stored checkpoint.

    Args:
        recipe_name: of the recipe, or a .toml file; the checkpoint has its name. Or a system that fuses.
        directory: the input with the corpus that it was trained on; or the lists that `prepare lists` reads.
        work: the working directory; the new checkpoint is in `work`/checkpoints.
        checkpoints: where the stored one is; a fusion is fitted to the networks there.
        device: where to compute.

    Returns:
        One row a metric: `stored here difference verdict` (OK: within .1 points, near: within 2, FAIL), and a line about the
        weights.

    Raises:
        CheckpointError: there is no stored one, or it is damaged. ReproductionError: a metric is further away than 2 points.
        InputError: the data are missing or malformed.
    """
    name = Path(recipe_name).stem
    system = SYSTEMS.get(name)
    fusion = system if system and isinstance(system.stage, Ensemble) else None
    stored = checkpoints / (fusion.stage.checkpoint or name if fusion else name)
    hashes = verified_hashes(stored, {METRICS})
    provenance = load_json(stored / PROVENANCE)
    made = provenance["trained on"]
    output = work / "checkpoints" / stored.name
    if fusion:
        _tell_differences(made["input"], prepare_again(directory, work, made))
        aggregate(fusion, work, Checkpoints(checkpoints), output, device, provenance.get("positive", False))
    else:
        recipe = read_recipe(recipe_name)
        try:
            _tell_differences(made["input"], recipe.task.prepare(directory, work, made))
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
        _fit(recipe, provenance, work, output, device)
    table = verdicts(load_json(stored / METRICS), load_json(output / METRICS))
    same = hashes.get(WEIGHTS) == load_json(output / PROVENANCE)["files"].get(WEIGHTS)
    weights = f"weights: {'the same' if same else 'other'} bytes" if WEIGHTS in hashes else ""
    if (table["verdict"] == "FAIL").any():
        raise ReproductionError(f"{name}: not reproduced\n{table.to_string()}\n{weights}")
    return table, weights


def verdicts(stored: Mapping[str, Any], here: Mapping[str, Any]) -> pd.DataFrame:
    """Metrics of two checkpoints side by side, in points of a hundred: `stored here difference verdict`."""
    if "validation" in stored:
        ours, theirs = here["validation"], stored["validation"]
    else:
        ours, theirs = ({"R² · 100": 100 * metrics["R²"]} for metrics in (here, stored))
    table = pd.DataFrame({"stored": theirs, "here": ours})
    table["difference"] = table["here"] - table["stored"]
    table["verdict"] = [_verdict(abs(value)) for value in table["difference"]]
    return table


def _verdict(distance: float) -> str:
    return "OK" if distance <= OK else "near" if distance <= NEAR else "FAIL"  # NaN, a metric that one lacks, fails


def _fit(recipe: Recipe, provenance: Mapping[str, Any], work: Path, output: Path, device: torch.device) -> None:
    _tell_changes(recipe, provenance["recipe"])
    if not issubclass(recipe.network_class, BERTNetwork):
        vectors = provenance["vectors"]
        if vectors["vectors file"] != "none":
            raise UsageError(
                f"{output.name}: its word vectors came from a file ({vectors['vectors file'][:12]}…), which is not here"
            )
        settings = {key: vectors[key] for key in asdict(word_vectors.VectorSettings()) if key in vectors}
        word_vectors.embed(work, work / "vectors", word_vectors.VectorSettings(**settings), None, False)
    start = recipe.start
    if start and not (output.parent / start).is_dir():
        log.info("%s starts from %s, which is made first", output.name, start)
        fit(start, read_recipe(start), work, work / "vectors", output.parent / start, device)
    fit(output.name, recipe, work, work / "vectors", output, device)


def _tell_differences(stored: Mapping[str, str], here: Mapping[str, str]) -> None:
    if stored != here:
        other = sorted(name for name in {*stored, *here} if stored.get(name) != here.get(name))
        log.warning("the data are not those that the stored checkpoint was trained on (%s)", ", ".join(other))


def _tell_changes(recipe: Recipe, stored: Mapping[str, Any]) -> None:
    """Say which settings of the recipe are others now; those that came later have their defaults."""
    now = json.loads(json.dumps(recipe.told()))
    for key, value in stored.items():
        pairs = value.items() if isinstance(value, dict) else [(None, value)]
        for inner, old in pairs:
            new = now.get(key) if inner is None else now.get(key, {}).get(inner)
            if key != "name" and new != old:
                place = key if inner is None else f"{key}.{inner}"
                log.warning("the recipe has changed since: %s was %s, is %s", place, old, new)
