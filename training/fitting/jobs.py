"""All recipes: each a `fit` in a process of its own, one a GPU; without a GPU one after another."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from submission.disk.files import make_directory
from submission.errors import SystemsFailedError
from submission.interrupted import when_stopped
from submission.paths import ROOT
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import walk
from training.fitting.recipe import read_recipe
from training.paths import RECIPES

log = logging.getLogger(__name__)


def recipes() -> list[str]:
    """Those of the systems' networks; one that starts from another network's encoder comes after the others."""
    needed = dict.fromkeys(part.checkpoint for system in SYSTEMS.values() for part in walk(system.stage) if part.checkpoint)
    names = [name for name in needed if (RECIPES / f"{name}.toml").is_file()]
    return sorted(names, key=lambda name: bool(start_of(name)))


def start_of(name: str) -> str:
    """The checkpoint that a recipe's network starts from, if it does."""
    return read_recipe(name).start


def fit_all(names: Sequence[str], flags: Sequence[str], work: Path, gpus: int) -> None:
    """Run `fit` with every recipe, all of them resumed where they were stopped; what each says goes to `work`/fit/<name>.log.

    Args:
        names: of recipes, each after the one that it starts from.
        flags: of `fit`.
        work: what `prepare` wrote.
        gpus: how many there are; so many at a time, each with one of its own.

    Raises:
        SystemsFailedError: some failed; the others are done.
    """
    free: SimpleQueue[dict[str, str]] = SimpleQueue()  # what tells a job which GPU is its own
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
    for own in [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in seen[:gpus]] or [{}]:
        free.put(own)
    jobs: dict[str, Future[int]] = {}
    running: set[subprocess.Popen[bytes]] = set()

    def fit(name: str) -> int:
        """The exit code."""
        start, began, file = jobs.get(start_of(name)), time.monotonic(), work / "fit" / f"{name}.log"
        if start and start.result():
            log.error("%s: not begun, it starts from %s", name, start_of(name))
            return start.result()
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
        jobs |= {name: pool.submit(fit, name) for name in names}
    failed = [name for name, job in jobs.items() if job.result()]
    if failed:
        raise SystemsFailedError(f"failed: {', '.join(failed)}; the others are done")
