"""Train from several seeds and continue with the best one on dev (seed optimisation, Thakur et al. 2021, section 3.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from submission.storage.artifact_store import ArtifactStore
from training.sbert.networks import Network
from training.sbert.trainer import STATE_FILES, TrainingRun

log = logging.getLogger(__name__)

DEV_SCORE_FILE = "dev.txt"
SCRATCH = "scratch"  # temporary trainer output


def train_best_seed(
    run: TrainingRun, seeds: Sequence[int], fraction: float, metric: Callable[[Network], float], work_dir: Path
) -> Network:
    """Train the best seed's network to the end; the learning-rate schedule is that of an uninterrupted run.

    Each seed's state stays in the directory until the caller removes it, so that an interrupted call resumes.

    Args:
        run: Training run.
        seeds: Candidate seeds; ties go to the first.
        fraction: Fraction of the steps after which seeds are compared.
        metric: Dev metric; larger is better.
        work_dir: Directory that no other run uses.
    """
    steps = max(1, round(fraction * run.steps))
    dev_scores = {seed: _train_first_steps(run, seed, steps, metric, work_dir / f"seed-{seed}") for seed in seeds}
    best = max(dev_scores, key=lambda seed: dev_scores[seed])
    message = ", ".join(f"seed {seed} {score:.2f}" for seed, score in dev_scores.items())
    log.info("Dev metric after %d of %d steps: %s", steps, run.steps, message)
    return run.train(best, work_dir / SCRATCH, state_dir=work_dir / f"seed-{best}")


def _train_first_steps(run: TrainingRun, seed: int, steps: int, metric: Callable[[Network], float], seed_dir: Path) -> float:
    """Train a seed's first steps, cache its state and return its dev metric."""

    def write(*files: Path) -> None:
        *state_files, dev_file = files
        model = run.train_steps(seed, steps, seed_dir / SCRATCH, dict(zip(STATE_FILES, state_files, strict=True)))
        dev_file.write_text(repr(metric(model)))

    ArtifactStore(seed_dir, {}, overwrite=True).build_files([*STATE_FILES, DEV_SCORE_FILE], write)
    return float((seed_dir / DEV_SCORE_FILE).read_text())
