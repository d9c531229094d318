"""Seed optimisation: which seed goes on, that it ends as it would have alone, and that a killed one goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.unit.training.conftest import sentence
from training.sbert import trainer as sbert_trainer
from training.sbert.networks import Network, TrainingConfig, score_pairs, trainable_state
from training.sbert.trainer import TrainingRun
from training.studies.augmented_sbert.seed_optimisation import train_best_seed

SEEDS = [11, 12, 13, 14, 15]
TEACHER = TrainingConfig("cross_entropy", 0.001, max_length=40, frozen_blocks=1, swap_pairs=True)
STUDENT = TrainingConfig("cosine", 0.01, max_length=20, frozen_blocks=1, epochs=2)


def run_of(training: TrainingConfig, encoder: Path) -> TrainingRun:
    """Ten steps, of pairs whose last batch is a smaller one."""
    rng = np.random.default_rng(0)
    rows = [(sentence(rng), sentence(rng), rng.random()) for _ in range(75)]
    return TrainingRun(encoder, training, pd.DataFrame(rows, columns=["first", "second", "label"]), torch.device("cpu"))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of all steps that are taken."""
    seeds: list[int] = []
    for trainer in (sbert_trainer._BiEncoderTrainer, sbert_trainer._CrossEncoderTrainer):
        step = trainer.training_step

        def counted(self: Any, *given: Any, step: Any = step, **named: Any) -> Any:
            seeds.append(self.args.seed)
            return step(self, *given, **named)

        monkeypatch.setattr(trainer, "training_step", counted)
    return seeds


class Measure:
    """The mean score, which differs from seed to seed; may be interrupted."""

    def __init__(self, pairs: pd.DataFrame, stops: int = 0) -> None:
        self.pairs, self.stops, self.found = pairs, stops, []

    def __call__(self, model: Network) -> float:
        if self.stops and len(self.found) == self.stops:
            raise KeyboardInterrupt
        self.found.append(float(score_pairs(model, self.pairs).mean()))
        return self.found[-1]


@pytest.mark.parametrize("training", [TEACHER, STUDENT], ids=["teacher", "student"])
def test_the_best_seed_ends_as_it_would_have_alone_and_where_it_was_killed(
    training: TrainingConfig, encoder: Path, tmp_path: Path, steps: list[int]
) -> None:
    run = run_of(training, encoder)
    measure = Measure(run.pairs)
    model = train_best_seed(run, SEEDS, 0.2, measure, tmp_path / "seeds")
    assert run.steps == 10
    assert len(steps) == 18  # 1.8 runs
    assert len({*measure.found}) == 5
    best = SEEDS[int(np.argmax(measure.found))]
    assert steps == [seed for seed in SEEDS for _ in range(2)] + [best] * 8
    alone = run.initial_network(best)
    run._build_trainer(alone, best, tmp_path / "alone").train()
    assert trainable_state(model) == trainable_state(alone)
    assert len(steps) == 28

    with pytest.raises(KeyboardInterrupt):
        train_best_seed(run, SEEDS, 0.2, Measure(run.pairs, stops=2), tmp_path / "killed")
    steps.clear()
    rest = Measure(run.pairs)
    resumed = train_best_seed(run, SEEDS, 0.2, rest, tmp_path / "killed")
    assert rest.found == measure.found[2:]
    assert len(steps) == 3 * 2 + 8
    assert trainable_state(resumed) == trainable_state(model)


def test_a_damaged_state_is_made_again(encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = run_of(TEACHER, encoder)
    expected = trainable_state(train_best_seed(run, SEEDS[:2], 0.2, Measure(run.pairs), tmp_path))
    file = tmp_path / "seed-11" / "optimizer.pt"
    file.write_bytes(file.read_bytes()[:-1])
    again = Measure(run.pairs)
    assert trainable_state(train_best_seed(run, SEEDS[:2], 0.2, again, tmp_path)) == expected
    assert len(again.found) == 1
    assert "checksum mismatch" in caplog.text


def test_the_first_of_equal_seeds_goes_on_and_the_rate_is_that_of_a_whole_run(
    encoder: Path, tmp_path: Path, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    step = torch.optim.AdamW.step

    def seen(self: torch.optim.AdamW, *given: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given)

    monkeypatch.setattr(torch.optim.AdamW, "step", seen)
    train_best_seed(run_of(TEACHER, encoder), [12, 11], 0.2, lambda model: 1.0, tmp_path)
    assert steps == [12] * 2 + [11] * 2 + [12] * 8
    whole = [0.0] + [0.001 * (10 - number) / 9 for number in range(1, 10)]
    assert rates == pytest.approx([*whole[:2], *whole[:2], *whole[2:]])
