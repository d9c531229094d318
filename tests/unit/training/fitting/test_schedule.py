from __future__ import annotations

import numpy as np
import pytest

from training.fitting.recipe import Recipe
from training.fitting.schedule import Schedule
from training.fitting.settings import Optimisation
from training.tasks.pairs import Pairs


def schedule(arguments: int = 10, **training: object) -> Schedule:
    settings = Optimisation(global_batch_size=3, micro_batch_size=3, **training)  # type: ignore[arg-type]
    return Schedule(Recipe(ranker="knrm", training=settings, task=Pairs()), arguments)


def test_every_argument_once_an_epoch_in_another_order() -> None:
    plan = schedule(epochs=2)
    assert (plan.per_epoch, plan.steps) == (4, 8)
    epochs = [np.concatenate([plan.rows(step) for step in steps]) for steps in (range(4), range(4, 8))]
    assert [sorted(rows.tolist()) for rows in epochs] == [list(range(10))] * 2
    assert epochs[0].tolist() != epochs[1].tolist()
    assert [len(plan.rows(step)) for step in range(4)] == [3, 3, 3, 1]


def test_validations_are_spread_over_an_epoch_and_the_last_step_is_one() -> None:
    assert [step for step in range(8) if schedule(epochs=2, validations=2).validates(step)] == [1, 3, 5, 7]
    assert [step for step in range(7) if schedule(epochs=2, validations=2, steps=7).validates(step)] == [1, 3, 5, 6]
    assert all(schedule(epochs=1, validations=8).validates(step) for step in range(4))


def test_rates_fall_to_nothing_where_they_are_to() -> None:
    assert [schedule(epochs=1, decay=True).rate(step) for step in range(4)] == pytest.approx([1, 0.75, 0.5, 0.25])
    assert schedule(epochs=1).rate(3) == 1


def test_rates_rise_from_nothing_over_the_warm_up() -> None:
    rates = [schedule(epochs=3, warm_up=0.25, decay=True).rate(step) for step in range(12)]
    assert rates[:4] == pytest.approx([1 / 3, 2 / 3, 1, 0.75])
    assert rates[-1] == pytest.approx(1 / 12)
    assert [schedule(epochs=3, warm_up=0.25).rate(step) for step in range(1, 5)] == pytest.approx([2 / 3, 1, 1, 1])
