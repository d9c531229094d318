"""Tests of seed optimisation: selection, equality with an uninterrupted run, and resumption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.unit.training.conftest import sample_sentence
from training.sbert import trainer as sbert_trainer
from training.sbert.networks import Network, TrainingConfig, score_pairs, serialise_trainable_state
from training.sbert.trainer import TrainingSetup
from training.studies.augmented_sbert.trial import train_best_seed

TEACHER = TrainingConfig("cross_entropy", 0.001, max_length=40, frozen_blocks=1, swap_pairs=True)
STUDENT = TrainingConfig("cosine", 0.01, max_length=20, frozen_blocks=1, epochs=2)
Steps = list[tuple[int, float]]


def make_setup(training: TrainingConfig, encoder: Path) -> TrainingSetup:
    """Return the setup of a run of ten steps, the last of which has a smaller batch."""
    rng = np.random.default_rng(0)
    rows = [(sample_sentence(rng), sample_sentence(rng), rng.random()) for _ in range(75)]
    return TrainingSetup(encoder, training, pd.DataFrame(rows, columns=["first", "second", "label"]), torch.device("cpu"))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Record the seed and the learning rate of every training step."""
    steps: Steps = []
    for trainer in (sbert_trainer._BiEncoderTrainer, sbert_trainer._CrossEncoderTrainer):

        def record(self: Any, *args: Any, step: Any = trainer.training_step, **kwargs: Any) -> Any:
            steps.append((self.args.seed, self.optimizer.param_groups[0]["lr"]))
            return step(self, *args, **kwargs)

        monkeypatch.setattr(trainer, "training_step", record)
    return steps


class MeanScore:
    """Dev metric: the mean score of `pairs`; after `max_calls` calls, if not 0, it raises KeyboardInterrupt."""

    def __init__(self, pairs: pd.DataFrame, max_calls: int = 0) -> None:
        self.pairs, self.max_calls, self.values = pairs, max_calls, []

    def __call__(self, model: Network) -> float:
        if self.max_calls and len(self.values) == self.max_calls:
            raise KeyboardInterrupt
        self.values.append(float(score_pairs(model, self.pairs).mean()))
        return self.values[-1]


@pytest.mark.parametrize("training", [TEACHER, STUDENT], ids=["teacher", "student"])
def test_best_seed_equals_an_uninterrupted_run(training: TrainingConfig, encoder: Path, tmp_path: Path, steps: Steps) -> None:
    setup, seeds = make_setup(training, encoder), [11, 12, 13]
    metric = MeanScore(setup.pairs)
    model = train_best_seed(setup, seeds, 0.2, metric, tmp_path / "seeds")
    best = seeds[int(np.argmax(metric.values))]
    assert len({*metric.values}) == 3
    assert [seed for seed, _ in steps] == [11] * 2 + [12] * 2 + [13] * 2 + [best] * 8
    uninterrupted = setup.train(best, tmp_path / "uninterrupted")
    assert serialise_trainable_state(model) == serialise_trainable_state(uninterrupted)
    assert steps[-10:] == [step for step in steps[:6] if step[0] == best] + steps[6:14]

    with pytest.raises(KeyboardInterrupt):
        train_best_seed(setup, seeds, 0.2, MeanScore(setup.pairs, max_calls=2), tmp_path / "killed")
    damaged = tmp_path / "killed" / "seed-11" / "optimizer.pt"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    steps.clear()
    remaining = MeanScore(setup.pairs)
    resumed = train_best_seed(setup, seeds, 0.2, remaining, tmp_path / "killed")
    assert remaining.values == [metric.values[0], metric.values[2]]  # of the damaged and of the missing state
    assert len(steps) == 2 + 2 + 8
    assert serialise_trainable_state(resumed) == serialise_trainable_state(model)


def test_ties_go_to_the_first_seed_with_one_schedule(encoder: Path, tmp_path: Path, steps: Steps) -> None:
    train_best_seed(make_setup(TEACHER, encoder), [12, 11], 0.2, lambda model: 1.0, tmp_path)
    seeds, rates = zip(*steps, strict=True)
    assert seeds == (12, 12, 11, 11, *[12] * 8)
    schedule = [0.0, *(0.001 * (10 - n) / 9 for n in range(1, 10))]
    assert list(rates) == pytest.approx([*schedule[:2], *schedule[:2], *schedule[2:]])
