"""Train from several seeds and continue with the best one on dev (seed optimisation, Thakur et al. 2021, section 3.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from submission.storage.artifact_store import Kept
from training.sbert.networks import Model
from training.sbert.trainer import STATE, Run

log = logging.getLogger(__name__)

DEV = "dev.txt"
SCRATCH = "scratch"  # temporary trainer output


def optimised(run: Run, seeds: Sequence[int], share: float, measure: Callable[[Model], float], directory: Path) -> Model:
    """Train the best seed's network to the end; the learning-rate schedule is that of an uninterrupted run.

    Each seed's state stays in the directory until the caller removes it, so that an interrupted call resumes.

    Args:
        run: Training run.
        seeds: Candidate seeds; ties go to the first.
        share: Fraction of the steps after which seeds are compared.
        measure: Dev metric; larger is better.
        directory: Directory of this run only.

    Raises:
        OutputError: If a file cannot be written. Errors of `measure` propagate.
    """
    steps = max(1, round(share * run.steps))
    dev_scores = {seed: _begun(run, seed, steps, measure, directory / f"seed-{seed}") for seed in seeds}
    best = max(dev_scores, key=lambda seed: dev_scores[seed])
    shown = ", ".join(f"seed {seed} {score:.2f}" for seed, score in dev_scores.items())
    log.info("Dev metric after %d of %d steps: %s", steps, run.steps, shown)
    return run.rest(best, directory / f"seed-{best}", directory / SCRATCH)


def _begun(run: Run, seed: int, steps: int, measure: Callable[[Model], float], place: Path) -> float:
    """Train a seed's first steps, cache its state and return its dev metric."""

    def write(*files: Path) -> None:
        *state_files, dev_file = files
        model = run.part(seed, steps, place / SCRATCH, dict(zip(STATE, state_files, strict=True)))
        dev_file.write_text(repr(measure(model)))

    Kept(place, {}, overwrite=True).make([*STATE, DEV], write)
    return float((place / DEV).read_text())
