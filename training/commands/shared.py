"""What flags of several verbs say, and what several verbs compute with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from submission.command import whole_number

if TYPE_CHECKING:
    from submission.systems.execution import Execution

MEASURES = ("nDCG@5 all", "nDCG@5 judged", "MAP all")  # by whose means points of a grid are compared
SEED = whole_number(0, 2**32 - 1)
COUNT = whole_number(1, 2**31)


def named(text: str) -> tuple[str, Path]:
    """The value of a flag [NAME=]FILE: without a name, the file's."""
    name, equals, file = text.rpartition("=")
    return (name, Path(file)) if equals else (Path(text).stem, Path(text))


@contextmanager
def computing(options: argparse.Namespace, output: Path) -> Iterator[Execution]:
    """What systems are computed with, from a verb's flags; `output`, a directory, is where the verb writes."""
    from submission.disk.work import Work
    from submission.input.directory import Input
    from submission.scoring.device import choose_device
    from submission.systems.execution import Execution
    from submission.systems.remembered import Checkpoints

    source = Input(options.input, getattr(options, "input_run", None))
    checkpoints = Checkpoints(options.checkpoints)
    with Work(options.work, output) as work:
        yield Execution(source, checkpoints, choose_device(options.device), work)
