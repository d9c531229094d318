"""Train variants of recipes (trials) and tabulate their learning curves."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from msgspec.structs import replace

from aragorn.engine import choose_device
from aragorn.errors import TrainingError
from aragorn.options import argument, option
from aragorn.storage.checkpoint_directory import METRICS, read_json
from aragorn_training import configs
from aragorn_training.data.word_vectors import get_default_folder_name
from aragorn_training.data.work_directory import lock_run
from aragorn_training.fitting.fit import fit
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.mapping import get_default_process_count, map_parallel
from aragorn_training.options import ProcessOptions, StudyOptions, parse_positive_int
from aragorn_training.tasks import build_recipe

log = logging.getLogger(__name__)

FILE = "trials_{options.plan}.csv"
FIRST_COLUMNS = ("trial", "seed", "network")
DIGITS = 6
COLUMNS = [
    *FIRST_COLUMNS,
    "pool",  # of the candidates of validation; empty without candidates
    "rule",
    "row",
    "step",
    "epoch",
    "loss",
    "measure",
    "value",
]
# values of `row`; those of baselines are their names
CURVE = "curve"
SELECTED = "selected"
Row = tuple[object, ...]  # values of COLUMNS
POSITION = ("step", "epoch", "loss")  # keys of a log row that are not measures


class Trial(NamedTuple):
    """A recipe to train; a name occurs once per seed."""

    name: str
    recipe: Recipe

    @property
    def run_name(self) -> str:
        """Name of the run and of its checkpoint: the trial's, and the seed unless it is 0."""
        return f"{self.name}-seed{self.recipe.seed}" if self.recipe.seed else self.name


def load_plan(name: str, n_seeds: int) -> list[Trial]:
    """Load a plan by its name in training/aragorn_training/configs/plans, with `n_seeds` seeds per
    trial from that of the recipe; raise UsageError if it or one of its recipes is malformed.

    Each table of the TOML file is a trial. Its key `recipe` names a recipe (default: the trial's
    name), and its other keys replace values of that recipe.
    """
    path, tables = configs.read("plan", name)
    recipes = {trial: _build_recipe(path, trial, changes) for trial, changes in tables.items()}
    return [
        Trial(trial, replace(recipe, seed=recipe.seed + offset))
        for trial, recipe in recipes.items()
        for offset in range(n_seeds)
    ]


def _build_recipe(plan: Path, trial: str, changes: dict[str, Any]) -> Recipe:
    _, values = configs.read("recipe", changes.pop("recipe", trial))
    return build_recipe(Path(f"{plan} [{trial}]"), _merge(values, changes))


def _merge(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` updated with `changes`, which replace keys of nested tables one by one."""
    tables = {
        key: _merge(values.get(key, {}), change)
        for key, change in changes.items()
        if isinstance(change, dict)
    }
    return {**values, **changes, **tables}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, ProcessOptions):
    """Options of the study."""

    plan: str = argument(
        metavar="PLAN", help="name of a plan in training/aragorn_training/configs/plans"
    )
    repetitions: int = option(1, parse=parse_positive_int, help="number of seeds per trial")


def run(options: Options) -> pd.DataFrame:
    """Train all trials as `fit` does, and tabulate them as COLUMNS; interrupted ones resume.

    Trials that are initialised from a checkpoint start after the others. A trial that does not
    learn is logged and has no rows.
    """
    trials = load_plan(options.plan, options.repetitions)
    device = choose_device(options.device)
    n_processes = options.processes or get_default_process_count(device)
    rows: dict[str, list[Row]] = {}
    for has_initial_checkpoint in (False, True):
        jobs = [
            (trial, options.work_dir, device)
            for trial in trials
            if bool(trial.recipe.initial_checkpoint) == has_initial_checkpoint
        ]
        if jobs:
            for (trial, *_), trial_rows in map_parallel(_run_trial, jobs, n_processes):
                rows[trial.run_name] = trial_rows
    return pd.DataFrame([row for trial in trials for row in rows[trial.run_name]], columns=COLUMNS)


def _run_trial(job: tuple[Trial, Path, str]) -> list[Row]:
    """Train a trial and tabulate its metrics; return no rows if it does not learn."""
    trial, work_dir, device = job
    name = trial.run_name
    recipe = trial.recipe
    checkpoint = work_dir / "checkpoints" / name
    vectors = work_dir / get_default_folder_name(recipe.task.surface_vector_method)
    try:
        with lock_run(name, work_dir):
            fit(name, recipe, work_dir, vectors, checkpoint, device)
    except TrainingError as error:
        log.error("%s: %s", name, error)
        return []
    return tabulate_metrics(trial, read_json(checkpoint / METRICS))


def tabulate_metrics(trial: Trial, metrics: Mapping[str, Any]) -> list[Row]:
    """Tabulate the metrics of a trial's checkpoint as COLUMNS: one row per measure of each
    validation (`row` is CURVE, on the queries that select the checkpoint), of the selected network
    (SELECTED, on all validation items), and of each baseline (`row` is its name)."""
    curve = metrics["log"]
    network = trial.recipe.network_class.get_name()
    selected_row = trial.recipe.task.curve.select(curve)
    baselines = {
        key: values
        for key, values in metrics.items()
        if isinstance(values, dict) and key != "validation"
    }
    parts = [(CURVE, log_row, log_row) for log_row in curve]
    parts.append((SELECTED, selected_row, metrics["validation"]))
    parts += [(name, {}, values) for name, values in baselines.items()]
    names = (trial.name, trial.recipe.seed, network, metrics.get("pool"), metrics.get("rule"))
    return [
        (*names, kind, *map(position.get, POSITION), measure, value)
        for kind, position, values in parts
        for measure, value in values.items()
        if measure not in POSITION
    ]
