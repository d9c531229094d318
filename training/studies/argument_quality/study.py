"""Train, cache and evaluate the networks of all settings, with baselines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import torch

from submission.errors import UsageError, nearest
from submission.inference.pretrained import Pretrained
from submission.storage.code_fingerprint import code_fingerprint
from training.data.quality import judgments, quality_table
from training.experiment import Experiment, run
from training.fitting.recipe import Recipe
from training.studies.argument_quality import table
from training.studies.argument_quality.baselines import ridge, vectors
from training.studies.argument_quality.metrics import lengths
from training.studies.argument_quality.pictures import Panel, length_plot
from training.studies.argument_quality.protocol import PARTS, Cell, Part, Trial, cells
from training.tasks.quality import Lists

LENGTH, UNTRAINED, ENSEMBLE = "length", "untrained", "ensemble"
REORDERED = "both_to_webis"  # setting whose networks re-rank Webis-ArgQuality-20
ROWS = (*PARTS, table.LISTS)  # row order of the CSV


def parts_of_rows(parts: Sequence[str]) -> list[str]:
    """Return the settings whose rows a study of `parts` replaces."""
    return [*parts, table.LISTS] if REORDERED in parts else [*parts]


@dataclass(frozen=True)
class Networks(Experiment[Cell, np.ndarray]):
    """Experiment over networks; a result is a network's scores (rows,)."""

    name, unit, result = "quality", "words", np.ndarray
    trials: Mapping[str, Trial]  # by setting
    keys: Mapping[str, Any]  # inputs of the results, by setting
    epochs: float

    def key(self, cell: Cell) -> object:
        """Return the cache key of a cell."""
        return self.keys[cell.part], cell

    def size(self, cell: Cell) -> int:
        """Estimate the number of words processed; training words count twice."""
        trial = self.trials[cell.part]
        word_counts = lengths(trial.table)
        train, dev = (word_counts[trial.rows(cell.fold, split)].sum() for split in ("train", "dev"))
        return int(self.epochs * (2 * train + dev) + word_counts[trial.scored(cell.fold)].sum())

    def compute(self, cell: Cell) -> np.ndarray:
        """Train a network and score the arguments.

        Raises:
            TrainingError: If the network does not learn.
        """
        return self.trials[cell.part].computed(cell)


def evaluate(
    parts: Sequence[str], seeds: int, recipe: Recipe, work: Path, device: torch.device, processes: int
) -> tuple[pd.DataFrame, bytes]:
    """Train and evaluate all networks; results are cached.

    Args:
        parts: Names of PARTS.
        seeds: Seeds per network.
        recipe: Training recipe.
        work: Working directory prepared by `prepare lists`; also caches results.
        device: Device to compute on.
        processes: Networks trained in parallel.

    Returns:
        The table (columns `table.COLUMNS`) and a scatter plot (PNG) of the first seed's scores by length. One row per network
        and measure: macro mean over topics, 95 % bootstrap interval, standard deviation over seeds, and the published value.
        For re-ranked lists, each measure also has its gain over the original order.

    Raises:
        UsageError: If a setting is unknown or the recipe is not listwise.
        InputError: If tables are missing or have too few debates.
        CheckpointError: If the encoder is missing.
        TrainingError: If a network does not learn.
        OutputError: If a file cannot be written.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise UsageError(f"unknown setting '{unknown[0]}'; {nearest(unknown[0], PARTS)}")
    if not isinstance(recipe.task, Lists):
        raise UsageError(f"recipe of {recipe.ranker or recipe.enricher}: no [lists] table; choose a tfr_bert recipe")
    tables = {name: quality_table(work, name) for name in ("ukp", "ibm")} | {"webis": judgments(work)}
    trials = {name: Trial(PARTS[name], tables, recipe, device) for name in parts}
    keys = {name: _key(trial.part, tables, recipe, device) for name, trial in trials.items()}
    scores = run(Networks(trials, keys, recipe.training.epochs), cells(parts, recipe, seeds), work, processes)
    data_sets = {data: None for trial in trials.values() for data in (*trial.part.trains, *trial.part.tests)}
    embeddings = {data: vectors(tables[data]["premise"].tolist(), recipe.encoder, device) for data in data_sets}
    rows: list[dict[str, object]] = []
    panels: list[Panel] = []
    for name, trial in trials.items():
        cell_scores, part = {cell: values for cell, values in scores.items() if cell.part == name}, trial.part
        networks = _networks(trial, cell_scores, np.concatenate([embeddings[data] for data in (*part.trains, *part.tests)]))
        rows += [*table.measured(name, trial, networks), *table.on_dev(name, trial, cell_scores)]
        if name == REORDERED:
            rows += table.reordered(trial, networks)
        panels += table.panels(name, trial, networks[recipe.task.loss][0])
    return pd.DataFrame(rows, columns=table.COLUMNS).astype({"seeds": "Int64"}), length_plot(panels)


def _key(part: Part, tables: Mapping[str, pd.DataFrame], recipe: Recipe, device: torch.device) -> tuple[Any, ...]:
    names = (*part.trains, *part.tests)
    data = [hashlib.sha256(tables[name].to_csv(index=False).encode()).hexdigest() for name in names]
    code = code_fingerprint(Trial.__module__, recipe.task.network_class(recipe).__module__)
    return _settings(recipe), Pretrained(recipe.encoder.name).sha256, code, device.type, data


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe settings shared by all cells."""
    settings: dict[str, Any] = msgspec.to_builtins(recipe)
    settings["network"].pop("topic", None)
    for name in ("loss", "data"):
        del settings["task"][name]
    del settings["seed"]
    return settings


def _networks(trial: Trial, cell_scores: Mapping[Cell, np.ndarray], embeddings: np.ndarray) -> table.Networks:
    """Collect test scores by network, one array per seed, including the baselines."""
    folds = range(trial.part.folds)
    networks: table.Networks = {
        LENGTH: [lengths(trial.table)],
        UNTRAINED: [trial.tested([ridge(embeddings, trial.table, trial.rows(fold, "train")) for fold in folds])],
    }
    by_seed: dict[int, dict[str, list[np.ndarray]]] = {}
    for cell, scores in cell_scores.items():  # cells are ordered by fold
        by_seed.setdefault(cell.seed, {}).setdefault(cell.network, []).append(scores)
    for members in by_seed.values():
        for name, fold_scores in members.items():
            networks.setdefault(name, []).append(trial.tested(fold_scores))
        if trial.part.all_losses:
            for name, standardised in ((ENSEMBLE, False), (f"{ENSEMBLE}, standardised", True)):
                member_scores = [trial.tested(fold_scores, standardised) for fold_scores in members.values()]
                networks.setdefault(name, []).append(np.mean(member_scores, axis=0))
    return networks
