"""Flags and helpers that several verbs share."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from submission.command import folder, whole_number
from submission.errors import UsageError, short

if TYPE_CHECKING:
    from submission.systems.execution import Execution

MEASURES = ("nDCG@5 all", "nDCG@5 (Touché)", "nDCG@5 condensed", "MAP all")  # by whose means points of a grid are compared
QRELS = "TREC qrels; of grades below 0, -1 is no judgment, the others count as 0"
SEED = whole_number(0, 2**32 - 1)
COUNT = whole_number(1, 2**31)


def add_data(verb: argparse.ArgumentParser, what: str) -> None:
    """Add the flag --input, the data that a verb reads."""
    verb.add_argument("-i", "--input", type=folder, required=True, metavar="DIR", help=what)


def add_work(verb: argparse.ArgumentParser, what: str) -> None:
    """Add the flag --work, a working directory that has to be named."""
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help=what)


def named(text: str) -> tuple[str, Path]:
    """Read the value of a flag [NAME=]FILE: without a name, the file's without its ending.

    A path that exists is a path, whatever is in it.
    """
    name, equals, file = text.partition("=")
    if not equals or Path(text).exists():
        path = folder(text)
        return path.name.removesuffix(".gz").rpartition(".")[0] or path.name, path
    if not name.strip():
        raise argparse.ArgumentTypeError(f"'{short(text)}': expected a name before =")
    return name, folder(file)


def by_name(named: Sequence[tuple[str, Path]], what: str) -> dict[str, Path]:
    """Files by their names. Raises UsageError: two of one name."""
    names = [name for name, _ in named]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        files = " and ".join(str(file) for name, file in named if name == repeated)
        raise UsageError(f"{files}: several {what} of the name {short(repeated)!r}; name them: NAME=FILE")
    return dict(named)


@contextmanager
def computing(options: argparse.Namespace, output: Path) -> Iterator[Execution]:
    """Create the execution of a verb's systems from its flags; `output` is the directory that the verb writes to."""
    from submission.disk.work import Work
    from submission.input.directory import Input
    from submission.scoring.device import choose_device
    from submission.systems.execution import Execution
    from submission.systems.remembered import Checkpoints

    source = Input(options.input, getattr(options, "input_run", None), order=getattr(options, "order", "auto"))
    checkpoints = Checkpoints(options.checkpoints)
    with Work(options.work, output) as work:
        yield Execution(source, checkpoints, choose_device(options.device), work)
