"""A checkpoint made anew, from its data and its recipe, and compared with the one that is there."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from submission.disk.fingerprint import input_hashes
from submission.disk.provenance import METRICS, PROVENANCE, load_json, verified_hashes
from submission.errors import ReproductionError, UsageError
from submission.input.args_me import corpus_files
from submission.rankers.base import Ranker
from submission.rankers.bert import BERTNetwork
from submission.scoring.stored import WEIGHTS
from submission.systems.catalogue import SYSTEMS
from submission.systems.remembered import Checkpoints
from submission.systems.stages import Fuse
from training.data import prepare
from training.data import vectors as word_vectors
from training.deepct.prepare import prepare_passages
from training.deepct.task import Mattering
from training.distilling.task import Distilled
from training.fitting import aggregate, fit
from training.fitting.network import Trainee
from training.fitting.pairs import Paired
from training.fitting.recipe import Recipe, read_recipe
from training.fitting.task import Task
from training.quality.prepare import prepare_quality
from training.quality.tables import published
from training.quality.task import Listed
from training.tagging.foretold import Foretold
from training.tagging.task import Tagged

log = logging.getLogger(__name__)

OK, NEAR = 0.1, 2.0  # points of a hundred that a metric may differ by: another machine's rounding; another machine's training


def reproduce(
    recipe_name: str, directory: Path, work: Path, checkpoints: Path, device: torch.device
) -> tuple[pd.DataFrame, str]:
    """Make a checkpoint anew in a working directory, and compare its metrics with the stored one's.

    What is finished there already is used; settings of tables and vectors are those of the stored checkpoint.

    Args:
        recipe_name: of the recipe, or a .toml file; the checkpoint has its name. Or a system that fuses.
        directory: the input with the corpus that it was trained on; or the lists that `prepare-quality` reads.
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
    fusion = system if system and isinstance(system.stage, Fuse) else None
    stored = checkpoints / (fusion.stage.checkpoint or name if fusion else name)
    hashes = verified_hashes(stored, {METRICS})
    provenance = load_json(stored / PROVENANCE)
    made = provenance["trained on"]
    _tell_differences(made["input"], _prepared(name, directory, work, made, provenance.get("recipe", {})))
    output = work / "checkpoints" / stored.name
    if fusion:
        aggregate.aggregate(fusion, work, Checkpoints(checkpoints), output, device)
    else:
        _fit(recipe_name, provenance, work, output, device)
    table = verdicts(load_json(stored / METRICS), load_json(output / METRICS))
    same = hashes.get(WEIGHTS) == load_json(output / PROVENANCE)["files"].get(WEIGHTS)
    weights = f"weights: {'the same' if same else 'other'} bytes" if WEIGHTS in hashes else ""
    if (table["verdict"] == "FAIL").any():
        raise ReproductionError(f"{name}: not reproduced\n{table.to_string()}\n{weights}")
    return table, weights


def _prepared(name: str, directory: Path, work: Path, made: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, str]:
    """Make the tables that a checkpoint learned from; the hashes of the files that they are of."""
    if lists := recipe.get("lists"):
        prepare_quality(directory, lists["data"], work)
        return {file: value for name in lists["data"] for file, value in published(work, name).items()}
    for learned, verbs in (("tags", "`prepare-tagging`, `embed`"), ("distilled", "`prepare-distilled`")):
        if learned in recipe:
            raise UsageError(f"{name}: learned from other tables than a corpus gives; {verbs} and `fit` make it anew")
    if "passages" in recipe:
        if made["qrels"] or made["runs"]:
            raise UsageError(f"{name}: its passages were told apart by judgments; `prepare-passages` and `fit` make it anew")
        prepare_passages(directory, work)
    else:
        prepare.prepare(directory, work, prepare.TableSettings(made["seed"], made["sample"], recipe.get("unrelated")))
    return input_hashes(corpus_files(directory))


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


def _fit(recipe_name: str, provenance: Mapping[str, Any], work: Path, output: Path, device: torch.device) -> None:
    recipe = read_recipe(recipe_name)
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
        first = read_recipe(start)
        fit.fit(start, first, task_of(first), work, work / "vectors", output.parent / start, device)
    fit.fit(output.name, recipe, task_of(recipe), work, work / "vectors", output, device, teach=teach_of(recipe))


def task_of(recipe: Recipe) -> Callable[[Recipe, Trainee[Any, Any], Path, torch.device], Task[Any]]:
    """What makes what the recipe's network learns from."""
    if recipe.passages:
        return Mattering.of
    if recipe.tags:
        return Tagged.of
    if recipe.language:
        return Foretold.of
    if recipe.distilled:
        return Distilled.of
    return Listed.of if recipe.lists else Paired.of


def teach_of(recipe: Recipe) -> Callable[[Ranker, Recipe, Path, torch.device], None] | None:
    """What gives a student its weights; None: the recipe's network is none."""
    if recipe.student is None:
        return None
    from training.augmented.students import teach  # only here: its libraries take seconds

    return teach


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
