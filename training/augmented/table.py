"""The paper's table: every network of every task, repeated with other seeds, beside the paper's own figures."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch

from submission.disk.code import code_fingerprint
from submission.disk.work import Work
from submission.errors import UsageError, nearest
from submission.scoring.pretrained import Pretrained
from training.augmented.gold import TASKS, Gold
from training.augmented.measures import CLASSES, DEGREES
from training.augmented.paper import PAPER, Published
from training.augmented.trial import (
    ADAPTED,
    BASELINE,
    BI_ENCODER,
    CROSS_ENCODER,
    STRATEGIES,
    UNADAPTED,
    UNTRAINED,
    Result,
    Settings,
    Starts,
    Trial,
)
from training.experiment import Experiment, run

log = logging.getLogger(__name__)

ONCE = (BASELINE, UNTRAINED)  # rows that no seed changes
REPEATED = (CROSS_ENCODER, BI_ENCODER, *STRATEGIES)
ADAPTATIONS = (("bws_cross", "mrpc"), ("mrpc", "bws_cross"))  # from, to


class Cell(NamedTuple):
    """A network of one task, once."""

    task: str
    repetition: int
    row: str
    source: str = ""  # the other task of an adaptation


class Networks(Experiment[Cell, Result]):
    """The networks of all trials as an experiment. A new one is made to see what worker processes have kept."""

    name, unit, result = "augmented", "pairs", Result

    def __init__(
        self,
        gold: Mapping[str, Gold],
        repetitions: int,
        settings: Settings,
        teacher: Pretrained,
        student: Pretrained,
        work: Work,
        device: torch.device,
    ) -> None:
        """Open the trials of all tasks, whose networks start from these encoders.

        Raises:
            OutputError: nothing can be kept.
        """
        code = code_fingerprint(Trial.__module__)
        self._settings = settings
        starts = Starts(teacher.folder, student.folder)
        self._trials: dict[tuple[str, int], Trial] = {}
        for task, own in gold.items():
            data = [part.to_csv(index=False) for part in (own.train, own.dev, own.test)]
            for repetition in range(repetitions):
                key = repr((astuple(settings), repetition, teacher.sha256, student.sha256, code, device.type, data))
                kept = work.place(f"augmented-{task}-{repetition}", key)
                self._trials[task, repetition] = Trial(own, repetition, settings, starts, kept, device)

    def key(self, cell: Cell) -> object:
        """Return the names of the trials, which have the hashes of all that decides them, and the row."""
        return cell.row, [trial.name for trial in self._of(cell) if trial]

    def group(self, cell: Cell) -> tuple[str, int]:
        """Return the trial: its networks build on each other."""
        return cell.task, cell.repetition

    def size(self, cell: Cell) -> int:
        """Return about how many pairs are trained on."""
        shares = {BASELINE: 0.0, UNTRAINED: 0.0, UNADAPTED: 0.0, CROSS_ENCODER: 2.0, BI_ENCODER: 1.0, ADAPTED: 1.0}
        factor = 2 if cell.row == STRATEGIES[-1] else 1
        gold = self._trials[self.group(cell)].gold
        return 1 + round(len(gold.train) * shares.get(cell.row, 1.0 + factor * self._settings.silver))

    def compute(self, cell: Cell) -> Result:
        """Train and measure a network. Raises TrainingError: it gives all pairs the same score."""
        trial, source = self._of(cell)
        found = trial.result(cell.row, source)
        log.info(
            "%s, repetition %d, %s: test %.2f, dev %.2f, %d silver pairs, %.0f s",
            cell.task, cell.repetition + 1, _name(cell), found.test, found.dev, found.silver, found.seconds,
        )  # fmt: skip
        return found

    def _of(self, cell: Cell) -> tuple[Trial, Trial | None]:
        """Return the trial of a cell, and that of the task from which it is adapted."""
        return self._trials[self.group(cell)], self._trials[cell.source, cell.repetition] if cell.source else None


def table(
    directory: Path,
    tasks: Sequence[str],
    repetitions: int,
    settings: Settings,
    teacher: Pretrained,
    student: Pretrained,
    work: Work,
    device: torch.device,
    processes: int,
) -> pd.DataFrame:
    """Train and measure everything that is not kept.

    Args:
        directory: the published data sets, a folder each.
        tasks: names of TASKS. Of a task from which one of them is adapted, teacher and student are made too.
        repetitions: with other seeds.
        settings: sizes, learning rates.
        teacher: the encoder where teachers start.
        student: the encoder where students start.
        work: what is finished is kept there.
        device: where to compute.
        processes: so many repetitions of tasks at a time; each result has the seconds of its process.

    Returns:
        A row for each network of each task: measures times 100 on test and dev (mean and deviation over the repetitions),
        silver pairs, seconds (means), and the paper's.

    Raises:
        UsageError: no such task. InputError: no such data, or a bad row.
        TrainingError: a network that learns nothing. OutputError: something cannot be kept.
    """
    unknown = [task for task in tasks if task not in TASKS]
    if unknown:
        raise UsageError(f"no task '{unknown[0]}'; {nearest(unknown[0], TASKS)}")
    sources = [source for source, target in ADAPTATIONS if target in tasks]
    gold = {task: TASKS[task](directory, settings.seed) for task in dict.fromkeys([*tasks, *sources])}
    cells = _cells(tasks, repetitions)
    results: dict[Cell, Result] = {}
    for of_another in (False, True):  # in this order: what another task's networks teach, when these are there
        some = [cell for cell in cells if bool(cell.source) == of_another]
        results |= run(Networks(gold, repetitions, settings, teacher, student, work, device), some, work.directory, processes)
    return _table(gold, {cell: results[cell] for cell in cells})


def _cells(tasks: Sequence[str], repetitions: int) -> list[Cell]:
    """In the order in which they are made: a whole repetition after the other."""
    cells = [Cell(task, 0, row) for task in tasks for row in ONCE]
    for repetition in range(repetitions):
        cells += [Cell(task, repetition, row) for task in tasks for row in REPEATED]
        for source, target in ADAPTATIONS:
            if target in tasks:
                cells += [Cell(target, repetition, row, source) for row in (UNADAPTED, ADAPTED)]
    return cells


def _name(cell: Cell) -> str:
    return f"{cell.row} from {cell.source}" if cell.source else cell.row


def _table(gold: dict[str, Gold], results: dict[Cell, Result]) -> pd.DataFrame:
    """Means and deviations over repetitions, the paper's figures beside."""
    rows = []
    for task in dict.fromkeys(cell.task for cell in results):
        own, names = gold[task], dict.fromkeys(_name(cell) for cell in results if cell.task == task)
        for name in names:
            found = [result for cell, result in results.items() if cell.task == task and _name(cell) == name]
            values = pd.DataFrame([(one.test, one.dev, one.silver, one.seconds) for one in found])
            means, deviations = values.mean(), values.std()
            published = PAPER[task].get(name, Published(*[None] * 5))  # type: ignore[arg-type]  # an empty row
            rows.append({
                "task": task, "measure": CLASSES if own.classes else DEGREES, "network": name,
                "test": means[0], "test deviation": deviations[0], "dev": means[1], "dev deviation": deviations[1],
                "repetitions": len(found), "silver": means[2], "seconds": means[3],
                **{f"paper {what.replace('_', ' ')}": value for what, value in published._asdict().items()},
            })  # fmt: skip
    return pd.DataFrame(rows)
