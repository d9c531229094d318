"""Train all recipes, each in its own `fit` process: one per GPU, or sequentially on the CPU."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from graphlib import TopologicalSorter
from pathlib import Path
from queue import SimpleQueue

from submission.errors import InputError, OutputError, SystemsFailedError
from submission.paths import PROJECT_DIR
from submission.signals import on_interrupt
from submission.storage.atomic_files import create_directory
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import iter_components
from training.data.word_vectors import get_default_folder_name
from training.fitting.initialisation import check_inputs
from training.fitting.recipe import Recipe
from training.paths import RECIPES
from training.tasks import load_recipe

log = logging.getLogger(__name__)


def load_recipes_in_order() -> dict[str, Recipe]:
    """Load the recipes of all systems' networks and of their initial checkpoints, in dependency order."""
    checkpoints = dict.fromkeys(
        stage.checkpoint for system in SYSTEMS.values() for stage in iter_components(system.stage) if stage.checkpoint
    )
    queue = [name for name in checkpoints if (RECIPES / f"{name}.toml").is_file()]
    recipes: dict[str, Recipe] = {}
    for name in queue:
        recipes[name] = load_recipe(name)
        initial_name = recipes[name].initial_checkpoint
        if initial_name and initial_name not in queue:
            queue.append(initial_name)
    dependencies = {name: [recipe.initial_checkpoint] if recipe.initial_checkpoint else [] for name, recipe in recipes.items()}
    return {name: recipes[name] for name in TopologicalSorter(dependencies).static_order()}


def describe_missing_inputs(recipe: Recipe, work_dir: Path, vectors_dir: Path | None) -> str:
    """Return an error message if the inputs of a recipe are missing, else an empty string; arguments as in `fit_all`."""
    try:
        check_inputs(recipe, work_dir, vectors_dir or work_dir / get_default_folder_name(recipe.task.surface_vector_method))
    except InputError as error:
        return str(error)
    return ""


def fit_all(recipes: Mapping[str, Recipe], flags: Sequence[str], work_dir: Path, vectors_dir: Path | None, n_gpus: int) -> None:
    """Train every recipe in a `fit` process, which resumes an interrupted run and logs to `work_dir`/fit/<name>.log.

    Recipes with missing inputs or a failed initial checkpoint are skipped.

    Args:
        recipes: Recipes by name, in dependency order.
        flags: Flags of `fit`, besides RECIPE and --work-dir.
        work_dir: Working directory with prepared data.
        vectors_dir: Directory of the word vectors; None: the default output of `prepare vectors` in `work_dir`.
        n_gpus: Number of GPUs, each used by one process at a time; 0: one process on the CPU.

    Raises:
        SystemsFailedError: If a recipe failed or was skipped.
    """
    errors = {name: describe_missing_inputs(recipe, work_dir, vectors_dir) for name, recipe in recipes.items()}
    for name, error in errors.items():
        if error:
            log.error("%s: skipped: %s", name, error)
    free_gpus = _queue_gpus(n_gpus)
    jobs: dict[str, Future[int]] = {}
    processes: set[subprocess.Popen[bytes]] = set()

    def run_fit(name: str) -> int:
        initial_name, log_path = recipes[name].initial_checkpoint, work_dir / "fit" / f"{name}.log"
        if errors[name]:
            return InputError.exit_code
        if initial_name and (code := jobs[initial_name].result()):
            log.error("%s: skipped: training of its initial checkpoint %s failed", name, initial_name)
            return code
        gpu_env = free_gpus.get()
        try:
            return _run(name, ["--work-dir", str(work_dir), *flags], gpu_env, log_path, processes)
        except OSError as error:  # the remaining recipes still run
            log.error("%s: cannot be started (%s)", name, error)
            return OutputError.exit_code
        finally:
            free_gpus.put(gpu_env)

    def terminate_running() -> None:
        for process in list(processes):
            process.terminate()

    create_directory(work_dir / "fit")
    with on_interrupt(terminate_running), ThreadPoolExecutor(free_gpus.qsize()) as pool:
        for name in recipes:  # dependencies first, or `result` above deadlocks
            jobs[name] = pool.submit(run_fit, name)
    if failed_recipes := [name for name, job in jobs.items() if job.result()]:
        cause = f"recipes failed or skipped: {', '.join(failed_recipes)}; all others finished"
        raise SystemsFailedError(f"{cause}; correct the errors above and run the same command again")


def _queue_gpus(count: int) -> SimpleQueue[dict[str, str]]:
    """Return a queue of environment variables that select one of `count` GPUs each; if `count` is 0, of one empty dict."""
    free_gpus: SimpleQueue[dict[str, str]] = SimpleQueue()
    visible_gpus = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")
    for gpu_env in [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in visible_gpus[:count]] or [{}]:
        free_gpus.put(gpu_env)
    return free_gpus


def _run(name: str, flags: list[str], gpu_env: dict[str, str], log_path: Path, processes: set[subprocess.Popen[bytes]]) -> int:
    """Run `fit` in a process, which is in `processes` until it ends; log to `log_path` and return the exit code."""
    start = time.monotonic()
    log.info("%s: started, log: %s", name, log_path)
    with log_path.open("wb") as log_file:
        command = [sys.executable, "-m", "training", "fit", name, *flags]
        process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(PROJECT_DIR)} | gpu_env, stderr=log_file)
        processes.add(process)
        code = process.wait()
        processes.remove(process)
    outcome = f"failed with exit code {code}, log: {log_path}" if code else "finished"
    log.log(logging.ERROR if code else logging.INFO, "%s: %s (%.0f s)", name, outcome, time.monotonic() - start)
    return code
