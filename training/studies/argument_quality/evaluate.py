"""The protocol carried out: each network of each part is trained once, kept, and measured beside what needs no training."""

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

from submission.disk.code import code_fingerprint
from submission.errors import UsageError, nearest
from submission.scoring.pretrained import Pretrained
from training.experiment import Experiment, run
from training.fitting.recipe import Recipe
from training.quality.prepare import judgments, quality_table
from training.studies.argument_quality import table
from training.studies.argument_quality.measures import lengths
from training.studies.argument_quality.pictures import Panel, length_plot
from training.studies.argument_quality.protocol import PARTS, Cell, Part, Trial, cells
from training.studies.argument_quality.untrained import ridge, vectors
from training.tasks.lists import Lists

LENGTH, UNTRAINED, ENSEMBLE = "length", "untrained", "ensemble"
REORDERED = "both_to_webis"  # whose networks re-order the lists of Webis-ArgQuality-20
ROWS = (*PARTS, table.LISTS)  # the parts that rows have, in their order


def parts_of_rows(parts: Sequence[str]) -> list[str]:
    """Return the parts of the rows that measuring some parts gives."""
    return [*parts, table.LISTS] if REORDERED in parts else [*parts]


@dataclass(frozen=True)
class Networks(Experiment[Cell, np.ndarray]):
    """The networks of some parts as an experiment: a cell's result is the scores (rows,) of a network."""

    name, unit, result = "quality", "words", np.ndarray
    trials: Mapping[str, Trial]  # by part
    keys: Mapping[str, Any]  # by part, all that decides its results
    epochs: float

    def key(self, cell: Cell) -> object:
        """Return all that decides a cell's scores."""
        return self.keys[cell.part], cell

    def size(self, cell: Cell) -> int:
        """Return about how many words are read; one that is trained on counts twice."""
        trial = self.trials[cell.part]
        length = lengths(trial.table)
        train, dev = (length[trial.rows(cell.fold, which)].sum() for which in ("train", "dev"))
        return int(self.epochs * (2 * train + dev) + length[trial.scored(cell.fold)].sum())

    def compute(self, cell: Cell) -> np.ndarray:
        """Train a network and score the arguments. Raises TrainingError: it learns nothing."""
        return self.trials[cell.part].computed(cell)


def evaluate(
    parts: Sequence[str], seeds: int, recipe: Recipe, work: Path, device: torch.device, processes: int
) -> tuple[pd.DataFrame, bytes]:
    """Train and measure everything that is not kept.

    Args:
        parts: names of PARTS, each once.
        seeds: of networks.
        recipe: how they are trained.
        work: the directory where `prepare lists` wrote; what is finished is kept there.
        device: where to compute.
        processes: so many networks at a time.

    Returns:
        The table, columns `table.COLUMNS`, and a picture (PNG) of the first seed's scores by length. A row of the table is a
        measure of a network: the macro mean over lists, its 95 % interval over lists that are drawn anew, the deviation
        between seeds, and the paper's figure. Of re-ordered lists means and intervals are over topics, and each measure also
        has what it gained over the given order.

    Raises:
        UsageError: no such part, a recipe that does not learn from lists. InputError: no tables, or too few debates.
        CheckpointError: no encoder. TrainingError: a network that learns nothing. OutputError: something cannot be kept.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise UsageError(f"no part '{unknown[0]}'; {nearest(unknown[0], PARTS)}")
    if not isinstance(recipe.task, Lists):
        raise UsageError(f"the recipe of {recipe.ranker or recipe.enricher} has no [lists] to learn from; take one of tfr_bert")
    tables = {name: quality_table(work, name) for name in ("ukp", "ibm")} | {"webis": judgments(work)}
    trials = {name: Trial(PARTS[name], tables, recipe, device) for name in parts}
    keys = {name: _key(trial.part, tables, recipe, device) for name, trial in trials.items()}
    scored = run(Networks(trials, keys, recipe.training.epochs), cells(parts, recipe, seeds), work, processes)
    needed = {data: None for trial in trials.values() for data in (*trial.part.trains, *trial.part.tests)}
    untrained = {data: vectors(tables[data]["premise"].tolist(), recipe.encoder, device) for data in needed}
    rows: list[dict[str, object]] = []
    panels: list[Panel] = []
    for name, trial in trials.items():
        own, part = {cell: scores for cell, scores in scored.items() if cell.part == name}, trial.part
        networks = _networks(trial, own, np.concatenate([untrained[data] for data in (*part.trains, *part.tests)]))
        rows += [*table.measured(name, trial, networks), *table.on_dev(name, trial, own)]
        if name == REORDERED:
            rows += table.reordered(trial, networks)
        panels += table.panels(name, trial, networks[recipe.task.loss][0])
    return pd.DataFrame(rows, columns=table.COLUMNS).astype({"seeds": "Int64"}), length_plot(panels)


def _key(part: Part, tables: Mapping[str, pd.DataFrame], recipe: Recipe, device: torch.device) -> tuple[Any, ...]:
    data = [hashlib.sha256(tables[own].to_csv(index=False).encode()).hexdigest() for own in (*part.trains, *part.tests)]
    code = code_fingerprint(Trial.__module__, recipe.task.network_class(recipe).__module__)
    return _settings(recipe), Pretrained(recipe.encoder.name).sha256, code, device.type, data


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Of a recipe what decides and is not a cell's own."""
    settings: dict[str, Any] = msgspec.to_builtins(recipe)
    settings["network"].pop("topic", None)
    for name in ("loss", "data"):
        del settings["task"][name]
    del settings["seed"]
    return settings


def _networks(trial: Trial, scored: Mapping[Cell, np.ndarray], found: np.ndarray) -> table.Networks:
    """Return the scores of each network where it is tested, an array a seed, and those of the baselines."""
    folds = range(trial.part.folds)
    networks: table.Networks = {
        LENGTH: [lengths(trial.table)],
        UNTRAINED: [trial.tested([ridge(found, trial.table, trial.rows(fold, "train")) for fold in folds])],
    }
    by_seed: dict[int, dict[str, list[np.ndarray]]] = {}
    for cell, scores in scored.items():  # folds come in their order
        by_seed.setdefault(cell.seed, {}).setdefault(cell.network, []).append(scores)
    for members in by_seed.values():
        for name, own in members.items():
            networks.setdefault(name, []).append(trial.tested(own))
        if trial.part.all_losses:
            for name, standardised in ((ENSEMBLE, False), (f"{ENSEMBLE}, standardised", True)):
                together = [trial.tested(own, standardised) for own in members.values()]
                networks.setdefault(name, []).append(np.mean(together, axis=0))
    return networks
