"""Define arguments that several subcommands share, and resolve them to paths and executions."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aragorn.cli import add_path, integer_between, parse_path
from aragorn.errors import UsageError, abbreviate, escape_undecodable

if TYPE_CHECKING:
    from aragorn.systems.execution import Execution

# Measures that can select a grid point: name in ir_measures → column of the tables.
SELECTION_MEASURES = {
    "nDCG@5": "nDCG@5 all", "nDCG@5-touche": "nDCG@5 (Touché)", "nDCG(judged_only=True)@5": "nDCG@5 condensed", "AP": "MAP all",
}  # fmt: skip
# of runs and qrels
EXTENSIONS = re.compile(r"(\.(txt|run|trec|res|results|eval|tsv|qrels?))?(\.gz)?$", re.IGNORECASE)
QRELS_HELP = "TREC qrels; grade -1 = unjudged, other negative grades = 0"
non_negative_int = integer_between(0, 2**32 - 1)
positive_int = integer_between(1, 2**31)


def add_input(parser: argparse.ArgumentParser, help_text: str, required: bool = True) -> None:
    """Add the option --input for one directory, which is mandatory unless `required` is false."""
    add_path(parser, "-i", "--input", dest="input_dir", required=required, help=help_text)


def add_inputs(parser: argparse.ArgumentParser, help_text: str, required: bool = True) -> None:
    """Add the repeatable option --input for topics and corpus, which is mandatory unless `required`
    is false."""
    add_path(
        parser,
        "-i",
        "--input",
        metavar="INPUT",
        dest="inputs",
        action="append",
        required=required,
        help=help_text,
    )


def add_work_dir(parser: argparse.ArgumentParser, help_text: str, required: bool = True) -> None:
    """Add the option --work-dir, which is mandatory unless `required` is false."""
    parser.add_argument(
        "--work-dir",
        "--work",
        type=parse_work_dir,
        required=required,
        metavar="WORK_DIR",
        help=help_text,
    )


def add_fold_qrels(parser: argparse.ArgumentParser) -> None:
    """Add the option --qrels of subcommands that cross-validate."""
    help_text = (
        f"{QRELS_HELP}; one file: 5-fold cross-validation over topics; several: one fold per file"
    )
    parser.add_argument(
        "--qrels",
        type=parse_named_path,
        action="append",
        required=True,
        metavar="[NAME=]FILE",
        help=help_text,
    )


def add_measure(parser: argparse.ArgumentParser) -> None:
    """Add the option --measure."""
    help_text = f"measure whose mean over topics is optimised: {', '.join(SELECTION_MEASURES)}"
    parser.add_argument(
        "--measure", type=parse_measure, default="nDCG@5", metavar="MEASURE", help=help_text
    )


def add_output(parser: argparse.ArgumentParser, help_text: str, metavar: str = "DIR") -> None:
    """Add the option --output."""
    add_path(parser, "-o", "--output", metavar=metavar, help=help_text)


def add_seed(parser: argparse.ArgumentParser, help_text: str = "random seed") -> None:
    """Add the option --seed."""
    parser.add_argument("--seed", type=non_negative_int, default=0, metavar="N", help=help_text)


def parse_work_dir(text: str) -> Path:
    """Parse the path of a working directory; raise ArgumentTypeError if it is not UTF-8."""
    if escape_undecodable(text) != text:
        raise argparse.ArgumentTypeError(
            f"'{abbreviate(text)}': not UTF-8, as Parquet requires; rename the directory"
        )
    return parse_path(text)


def parse_measure(text: str) -> str:
    """Return the column of a measure, named as in ir_measures or by its column; raise
    ArgumentTypeError if it is unknown."""
    column = SELECTION_MEASURES.get(text, text)
    if column not in SELECTION_MEASURES.values():
        raise argparse.ArgumentTypeError(
            f"'{abbreviate(text)}': expected one of {', '.join(SELECTION_MEASURES)}"
        )
    return column


def parse_named_path(text: str) -> tuple[str, Path]:
    """Parse [NAME=]FILE into name and path; the default name is the file name without a common
    extension of runs and qrels.

    An existing path is taken literally, even if it contains `=`.
    """
    name, separator, file = text.partition("=")
    if not separator or Path(text).exists():
        path = parse_path(text)
        file_name = escape_undecodable(path.absolute().name)
        return EXTENSIONS.sub("", file_name) or file_name, path
    if not name.strip():
        raise argparse.ArgumentTypeError(f"'{abbreviate(text)}': expected NAME before =")
    return escape_undecodable(name), parse_path(file)


def index_files_by_name(named_paths: Sequence[tuple[str, Path]], kind: str) -> dict[str, Path]:
    """Return the files by name; raise UsageError if two files of this kind (qrels or run) have the
    same name."""
    names = [name for name, _ in named_paths]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        files = " and ".join(str(file) for name, file in named_paths if name == duplicate)
        raise UsageError(
            f"{files}: duplicate {kind} name {abbreviate(duplicate)!r}; name each file with NAME=FILE"
        )
    return dict(named_paths)


def get_output(args: argparse.Namespace, *default: str) -> Path:
    """Return --output, or by default the path `default` in --work-dir; raise UsageError if both
    options are missing."""
    if args.output is None and args.work_dir is None:
        raise UsageError("no output directory; add -o DIR or --work-dir WORK_DIR")
    # by default, no shipped file is overwritten
    output: Path = args.output or args.work_dir.joinpath(*default)
    return output


def prepare_result_file(args: argparse.Namespace, name: str) -> Path:
    """Return --output, or by default the file `name` in WORK_DIR/results; create the directory of
    the file."""
    from aragorn.storage.atomic_files import create_directory

    file = get_output(args, "results", name)
    create_directory(file.parent)
    return file


@contextmanager
def open_work_dir(work_dir: Path) -> Iterator[None]:
    """Create a working directory if it is missing, and lock it until the context ends."""
    from aragorn.storage.atomic_files import create_directory

    from aragorn_training.data.work_directory import lock_work_directory

    create_directory(work_dir)
    with lock_work_directory(work_dir):
        yield


@contextmanager
def open_folder(folder: Path, work_dir: Path) -> Iterator[None]:
    """Create and lock a folder; other processes may use other folders of the working directory at
    the same time."""
    from aragorn.storage.atomic_files import create_directory
    from aragorn.storage.locks import lock_directory

    create_directory(work_dir)
    create_directory(folder)
    with lock_directory(work_dir, shared=True), lock_directory(folder):
        yield


@contextmanager
def open_execution(
    args: argparse.Namespace, cache_dir: Path | None, output_dir: Path
) -> Iterator[Execution]:
    """Open an execution on the input; if `cache_dir` is None, the cache is a temporary directory in
    `output_dir`."""
    from aragorn.inference.device import choose_device, choose_precision
    from aragorn.io.dataset import Dataset
    from aragorn.storage.cache_directory import CacheDirectory
    from aragorn.systems.execution import CheckpointStore, Execution

    dataset = Dataset(
        *args.inputs,
        input_run=getattr(args, "input_run", None),
        order=getattr(args, "order", "auto"),
    )
    device = choose_device(args.device)
    checkpoints = CheckpointStore(
        args.checkpoint_dir, choose_precision(getattr(args, "precision", "float32"), device)
    )
    with CacheDirectory(cache_dir, output_dir) as cache:
        yield Execution(dataset, checkpoints, device, cache)
