"""Arguments and helpers shared by the verbs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from submission.cli import folder, whole_number
from submission.errors import UsageError, short

if TYPE_CHECKING:
    from submission.systems.execution import Execution

# measures that can select a grid point; the first is the default
MEASURES = ("nDCG@5 all", "nDCG@5 (Touché)", "nDCG@5 condensed", "MAP all")
QRELS = "TREC qrels; grade -1 = unjudged, other negative grades = 0"
SEED = whole_number(0, 2**32 - 1)
COUNT = whole_number(1, 2**31)


def add_data(verb: argparse.ArgumentParser, what: str) -> None:
    """Add --input."""
    verb.add_argument("-i", "--input", type=folder, required=True, metavar="DIR", help=what)


def add_work(verb: argparse.ArgumentParser, what: str) -> None:
    """Add the required --work."""
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help=what)


def add_fold_qrels(parser: argparse.ArgumentParser) -> None:
    """Add --qrels of verbs that cross-validate."""
    help_text = f"{QRELS}; one file: 5-fold cross-validation over topics; several: one fold per file"
    parser.add_argument("--qrels", type=named, action="append", required=True, metavar="[NAME=]FILE", help=help_text)


def add_output(parser: argparse.ArgumentParser, help_text: str, metavar: str = "DIR", default: Path | None = None) -> None:
    """Add --output."""
    parser.add_argument("-o", "--output", type=folder, default=default, metavar=metavar, help=help_text)


def named(text: str) -> tuple[str, Path]:
    """Parse [NAME=]FILE; the default name is the file name without extension.

    An existing path is taken literally, even if it contains `=`.
    """
    name, separator, file = text.partition("=")
    if not separator or Path(text).exists():
        path = folder(text)
        return path.name.removesuffix(".gz").rpartition(".")[0] or path.name, path
    if not name.strip():
        raise argparse.ArgumentTypeError(f"'{short(text)}': expected NAME before =")
    return name, folder(file)


def by_name(named: Sequence[tuple[str, Path]], what: str) -> dict[str, Path]:
    """Map names to files.

    Raises:
        UsageError: If two files have the same name.
    """
    names = [name for name, _ in named]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        files = " and ".join(str(file) for name, file in named if name == duplicate)
        raise UsageError(f"{files}: the same name {short(duplicate)!r} for several {what}; give each a name with NAME=FILE")
    return dict(named)


@contextmanager
def locked_work_dir(work_dir: Path) -> Iterator[None]:
    """Create a working directory if it is missing and hold its lock."""
    from submission.storage.atomic_files import make_directory
    from training.data.work_directory import held

    make_directory(work_dir)
    with held(work_dir):
        yield


@contextmanager
def computing(options: argparse.Namespace, output: Path) -> Iterator[Execution]:
    """Open an execution from the arguments; temporary files go next to `output`."""
    from submission.data.dataset import Input
    from submission.inference.device import choose_device
    from submission.storage.cache_directory import Work
    from submission.systems.checkpoint_store import Checkpoints
    from submission.systems.execution import Execution

    source = Input(options.input, getattr(options, "input_run", None), order=getattr(options, "order", "auto"))
    checkpoints = Checkpoints(options.checkpoints)
    with Work(options.work, output) as work:
        yield Execution(source, checkpoints, choose_device(options.device), work)
