"""The paper's table: every network of every task, repeated with other seeds, beside the paper's own figures."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch

from submission.disk.code import code_fingerprint
from submission.disk.work import Work
from submission.errors import UsageError, nearest
from submission.progress import progress_of
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
    Trial,
)
from training.side_by_side import side_by_side

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


class Errand(NamedTuple):
    """The cells of one trial that are missing."""

    cells: list[Cell]
    trial: Trial
    source: Trial | None


def table(
    directory: Path,
    tasks: Sequence[str],
    repetitions: int,
    settings: Settings,
    encoder: str,
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
        encoder: where teacher and student start.
        work: what is finished is kept there.
        device: where to compute.
        processes: so many repetitions of tasks at a time; each result has the seconds of its process.

    Returns:
        A row for each network of each task: measures times 100 on test and dev (mean and deviation over the repetitions),
        silver pairs, seconds (means), and the paper's.

    Raises:
        UsageError: no such task. InputError: no such data, or a bad row. CheckpointError: no encoder.
        TrainingError: a network that learns nothing. OutputError: something cannot be kept.
    """
    unknown = [task for task in tasks if task not in TASKS]
    if unknown:
        raise UsageError(f"no task '{unknown[0]}'; {nearest(unknown[0], TASKS)}")
    sources = [source for source, target in ADAPTATIONS if target in tasks]
    gold = {task: TASKS[task](directory, settings.seed) for task in dict.fromkeys([*tasks, *sources])}
    cells = _cells(tasks, repetitions)
    own, adapted = ([cell for cell in cells if bool(cell.source) == of_another] for of_another in (False, True))
    for some in (own, adapted):  # in this order: what another task's networks teach, when these are there
        trials = _trials(gold, repetitions, settings, encoder, work, device)  # anew: with what processes have kept
        errands = _errands(some, trials, settings)
        left = sum(len(errand.cells) for errand, _ in errands)
        if left < len(some):
            log.info("%d of %d results are kept", len(some) - left, len(some))
        sizes = {errand.trial.name: size for errand, size in errands}
        done = side_by_side(_carried_out, [errand for errand, _ in errands], processes)
        for _ in progress_of(((name, sizes[name]) for _, name in done), sum(sizes.values()), "augmented", "pairs"):
            pass
    trials = _trials(gold, repetitions, settings, encoder, work, device)
    return _table(gold, {cell: trials[cell.task, cell.repetition].result(cell.row, _source(trials, cell)) for cell in cells})


def _trials(
    gold: dict[str, Gold], repetitions: int, settings: Settings, encoder: str, work: Work, device: torch.device
) -> dict[tuple[str, int], Trial]:
    pretrained = Pretrained(encoder)
    code = code_fingerprint(Trial.__module__)
    trials = {}
    for task, own in gold.items():
        data = [part.to_csv(index=False) for part in (own.train, own.dev, own.test)]
        for repetition in range(repetitions):
            key = repr((astuple(settings), repetition, pretrained.sha256, code, device.type, data))
            kept = work.place(f"augmented-{task}-{repetition}", key)
            trials[task, repetition] = Trial(own, repetition, settings, pretrained.folder, kept, device)
    return trials


def _cells(tasks: Sequence[str], repetitions: int) -> list[Cell]:
    """In the order in which they are made: a whole repetition after the other."""
    cells = [Cell(task, 0, row) for task in tasks for row in ONCE]
    for repetition in range(repetitions):
        cells += [Cell(task, repetition, row) for task in tasks for row in REPEATED]
        for source, target in ADAPTATIONS:
            if target in tasks:
                cells += [Cell(target, repetition, row, source) for row in (UNADAPTED, ADAPTED)]
    return cells


def _weight(gold: Gold, row: str, settings: Settings) -> int:
    """About how many pairs are trained on."""
    shares = {BASELINE: 0.0, UNTRAINED: 0.0, UNADAPTED: 0.0, CROSS_ENCODER: 2.0, BI_ENCODER: 1.0, ADAPTED: 1.0}
    factor = 2 if row == STRATEGIES[-1] else 1
    return 1 + round(len(gold.train) * shares.get(row, 1.0 + factor * settings.silver))


def _errands(cells: Sequence[Cell], trials: dict[tuple[str, int], Trial], settings: Settings) -> list[tuple[Errand, int]]:
    """List the missing cells by trial with their approximate number of training pairs, the longest first."""
    missing: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        if not trials[cell.task, cell.repetition].has(cell.row, _source(trials, cell)):
            missing.setdefault((cell.task, cell.repetition), []).append(cell)
    errands = []
    for key, its in missing.items():
        size = sum(_weight(trials[key].gold, cell.row, settings) for cell in its)
        errands.append((Errand(its, trials[key], _source(trials, its[0])), size))
    return sorted(errands, key=lambda errand: -errand[1])


def _carried_out(errand: Errand) -> str:
    """Make what is missing; the trial's name."""
    for cell in errand.cells:
        found = errand.trial.result(cell.row, errand.source)
        log.info(
            "%s, repetition %d, %s: test %.2f, dev %.2f, %d silver pairs, %.0f s",
            cell.task, cell.repetition + 1, _name(cell), found.test, found.dev, found.silver, found.seconds,
        )  # fmt: skip
    return errand.trial.name


def _source(trials: dict[tuple[str, int], Trial], cell: Cell) -> Trial | None:
    return trials[cell.source, cell.repetition] if cell.source else None


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
