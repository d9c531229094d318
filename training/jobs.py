"""Train all recipes: each is a `fit` in a process of its own, one a GPU; without a GPU one after another."""

from __future__ import annotations

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

from submission.disk.files import make_directory
from submission.errors import InputError, SystemsFailedError
from submission.interrupted import when_stopped
from submission.paths import ROOT
from submission.rankers.bert import BERTNetwork
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import walk
from training.data.vectors import folder_of, require_vectors
from training.fitting.recipe import Recipe
from training.paths import RECIPES
from training.tasks import read_recipe

log = logging.getLogger(__name__)


def recipes() -> dict[str, Recipe]:
    """Read the recipes of the systems' networks and of all that these start from, each behind the one that it starts from."""
    needed = dict.fromkeys(part.checkpoint for system in SYSTEMS.values() for part in walk(system.stage) if part.checkpoint)
    waiting = [name for name in needed if (RECIPES / f"{name}.toml").is_file()]
    found: dict[str, Recipe] = {}
    for name in waiting:
        found[name] = read_recipe(name)
        waiting += [start for start in [found[name].start] if start and start not in waiting]
    starts = {name: [recipe.start] if recipe.start else [] for name, recipe in found.items()}
    return {name: found[name] for name in TopologicalSorter(starts).static_order()}


def lacking(recipe: Recipe, work: Path, vectors: Path | None) -> str:
    """Say which prepared data or vectors a recipe lacks, with the verb that makes them; nothing where it lacks none."""
    try:
        recipe.task.require(work)
        if not issubclass(recipe.network_class, BERTNetwork):
            written = recipe.task.written
            dimensions = recipe.network.get("dimensions", recipe.network_class.Config.dimensions)
            require_vectors(vectors or work / folder_of(written), work, written, dimensions)
    except InputError as error:
        return str(error)
    return ""


def fit_all(found: Mapping[str, Recipe], flags: Sequence[str], work: Path, vectors: Path | None, gpus: int) -> None:
    """Run `fit` with every recipe, each resumed where it was stopped; its log goes to `work`/fit/<name>.log.

    A recipe whose data are not prepared, or whose start failed, is not begun; that is said before any is begun.

    Args:
        found: recipes by their names, each behind the one that it starts from.
        flags: of `fit`.
        work: the working directory.
        vectors: what `prepare vectors` wrote; None: where it writes.
        gpus: how many there are; so many at a time, each with one of its own.

    Raises:
        SystemsFailedError: some failed or were not begun; the others are done.
    """
    free: SimpleQueue[dict[str, str]] = SimpleQueue()  # the environment that tells a job which GPU is its own
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
    for own in [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in seen[:gpus]] or [{}]:
        free.put(own)
    unprepared = {name: words for name, recipe in found.items() if (words := lacking(recipe, work, vectors))}
    for name, words in unprepared.items():
        log.error("%s: not begun: %s", name, words)
    jobs: dict[str, Future[int]] = {}
    running: set[subprocess.Popen[bytes]] = set()

    def fit(name: str) -> int:
        """Return the exit code."""
        start, began, file = found[name].start, time.monotonic(), work / "fit" / f"{name}.log"
        if name in unprepared:
            return InputError.exit_code
        if start and (code := jobs[start].result()):
            log.error("%s: not begun: it starts from %s", name, start)
            return code
        own = free.get()
        log.info("%s: begun, see %s", name, file)
        with file.open("wb") as said:
            command = [sys.executable, "-m", "training", "fit", name, "--work", str(work), *flags]
            job = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)} | own, stderr=said)
            running.add(job)
            code = job.wait()
            running.remove(job)
        free.put(own)
        how = f"failed with exit code {code}, see {file}" if code else "done"
        log.log(logging.ERROR if code else logging.INFO, "%s: %s (%.0f s)", name, how, time.monotonic() - began)
        return code

    def stop() -> None:
        for job in list(running):
            job.terminate()

    make_directory(work / "fit")
    with when_stopped(stop), ThreadPoolExecutor(free.qsize()) as pool:
        for name in found:  # a recipe behind the one that it waits for
            jobs[name] = pool.submit(fit, name)
    failed = [name for name, job in jobs.items() if job.result()]
    if failed:
        raise SystemsFailedError(f"failed or not begun: {', '.join(failed)}; the others are done")
