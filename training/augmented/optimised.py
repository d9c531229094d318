"""Seed optimisation (Thakur et al. 2021, section 3.3): many seeds begin, the best on dev after a fifth of the steps goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from submission.disk.kept import Kept
from training.augmented.models import Model
from training.augmented.runs import STATE, Run

log = logging.getLogger(__name__)

DEV = "dev.txt"
SCRATCH = "scratch"  # what the trainer writes before it is kept


def optimised(run: Run, seeds: Sequence[int], share: float, measure: Callable[[Model], float], directory: Path) -> Model:
    """The network of the best seed, trained to its end. Its learning rate is at every step that of a whole run.

    The state of each seed is kept in the directory until the caller removes it; a process that was killed goes on there.

    Args:
        run: what is trained, and on what.
        seeds: that begin; of equal ones the first goes on.
        share: of the steps, after which they are compared.
        measure: the larger the better, on dev.
        directory: of this run alone.

    Raises:
        OutputError: it cannot be written; and what `measure` raises.
    """
    steps = max(1, round(share * run.steps))
    found = {seed: _begun(run, seed, steps, measure, directory / f"seed-{seed}") for seed in seeds}
    best = max(found, key=lambda seed: found[seed])
    log.info(
        "after %d of %d steps: %s", steps, run.steps, ", ".join(f"seed {seed} {value:.2f}" for seed, value in found.items())
    )
    return run.rest(best, directory / f"seed-{best}", directory / SCRATCH)


def _begun(run: Run, seed: int, steps: int, measure: Callable[[Model], float], place: Path) -> float:
    """The measure of a seed after its first steps; the state is kept beside it."""

    def write(*files: Path) -> None:
        *state, dev = files
        model = run.part(seed, steps, place / SCRATCH, dict(zip(STATE, state, strict=True)))
        dev.write_text(repr(measure(model)))

    kept = Kept(place, {}, overwrite=True)
    kept.make([*STATE, DEV], write)
    return float((place / DEV).read_text())
