"""Arguments and helpers shared by the verbs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from submission.cli import integer_between, path_argument
from submission.errors import UsageError, abbreviate

if TYPE_CHECKING:
    from submission.systems.execution import Execution

# measures that can select a grid point; the first is the default
SELECTION_MEASURES = ("nDCG@5 all", "nDCG@5 (Touché)", "nDCG@5 condensed", "MAP all")
QRELS_HELP = "TREC qrels; grade -1 = unjudged, other negative grades = 0"
seed = integer_between(0, 2**32 - 1)
positive_int = integer_between(1, 2**31)


def add_data_argument(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add --input."""
    parser.add_argument("-i", "--input", dest="input_dir", type=path_argument, required=True, metavar="DIR", help=help_text)


def add_work_argument(verb: argparse.ArgumentParser, what: str) -> None:
    """Add the required --work."""
    verb.add_argument("--work", dest="work_dir", type=path_argument, required=True, metavar="WORK", help=what)


def add_fold_qrels(parser: argparse.ArgumentParser) -> None:
    """Add --qrels of verbs that cross-validate."""
    help_text = f"{QRELS_HELP}; one file: 5-fold cross-validation over topics; several: one fold per file"
    parser.add_argument("--qrels", type=named_path, action="append", required=True, metavar="[NAME=]FILE", help=help_text)


def add_output(parser: argparse.ArgumentParser, help_text: str, metavar: str = "DIR", default: Path | None = None) -> None:
    """Add --output."""
    parser.add_argument("-o", "--output", type=path_argument, default=default, metavar=metavar, help=help_text)


def named_path(text: str) -> tuple[str, Path]:
    """Parse [NAME=]FILE; the default name is the file name without extension.

    An existing path is taken literally, even if it contains `=`.
    """
    name, separator, file = text.partition("=")
    if not separator or Path(text).exists():
        path = path_argument(text)
        return path.name.removesuffix(".gz").rpartition(".")[0] or path.name, path
    if not name.strip():
        raise argparse.ArgumentTypeError(f"'{abbreviate(text)}': expected NAME before =")
    return name, path_argument(file)


def unique_names(named_paths: Sequence[tuple[str, Path]], kind: str) -> dict[str, Path]:
    """Map names to files.

    Raises:
        UsageError: If two files have the same name.
    """
    names = [name for name, _ in named_paths]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        files = " and ".join(str(file) for name, file in named_paths if name == duplicate)
        raise UsageError(
            f"{files}: the same name {abbreviate(duplicate)!r} for several {kind}; give each a name with NAME=FILE"
        )
    return dict(named_paths)


@contextmanager
def locked_work_dir(work_dir: Path) -> Iterator[None]:
    """Create a working directory if it is missing and hold its lock."""
    from submission.storage.atomic_files import create_directory
    from training.data.work_directory import lock_work_directory

    create_directory(work_dir)
    with lock_work_directory(work_dir):
        yield


@contextmanager
def open_execution(options: argparse.Namespace, output: Path) -> Iterator[Execution]:
    """Open an execution from the arguments; temporary files go next to `output`."""
    from submission.data.dataset import Dataset
    from submission.inference.device import choose_device
    from submission.storage.cache_directory import CacheDirectory
    from submission.systems.checkpoint_store import CheckpointStore
    from submission.systems.execution import Execution

    source = Dataset(options.input_dir, getattr(options, "input_run", None), order=getattr(options, "order", "auto"))
    checkpoints = CheckpointStore(options.checkpoint_dir)
    with CacheDirectory(options.work_dir, output) as work:
        yield Execution(source, checkpoints, choose_device(options.device), work)
