"""Define options that several commands share, as fields of dataclasses."""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from aragorn.errors import UsageError, abbreviate, escape_name, escape_undecodable
from aragorn.io import AUTO_ORDER, Order
from aragorn.options import integer_between, option, parse_path
from aragorn.paths import CHECKPOINT_DIR, SAMPLE_INPUT
from aragorn.storage.checkpoint_directory import require_replaceable

# measures that can select a grid point, by their names in ir_measures
SELECTION_MEASURES = ("nDCG@5-touche", "nDCG(judged_only=True)@5", "nDCG@5", "AP")
# of runs and qrels
EXTENSIONS = re.compile(r"(\.(txt|run|trec|res|results|eval|tsv|qrels?))?(\.gz)?$", re.IGNORECASE)
QRELS_HELP = "TREC qrels; grade -1 = unjudged, other negative grades = 0"
NamedPath = tuple[str, Path]


def output_option(help: str, metavar: str = "DIR") -> Any:
    """Return the field of -o, the path of an output, None by default."""
    return option(None, "-o", "--output", metavar=metavar, help=help)


def input_option(help: str, default: Any = MISSING, **settings: Any) -> Any:
    """Return the field of -i, mandatory by default: a directory, or for a tuple, an INPUT each."""
    return option(default, "-i", "--input", help=help, **settings)


def qrels_option(help: str, default: Any = MISSING) -> Any:
    """Return the field of --qrels, a tuple of named files, mandatory by default."""
    return option(default, parse=parse_named_path, metavar="[NAME=]FILE", help=help)


parse_positive_int = integer_between(1, 2**31)
parse_process_count = integer_between(1, 1024)


def parse_work_dir(text: str) -> Path:
    """Parse the path of a working directory; raise ArgumentTypeError if it is not UTF-8."""
    if escape_undecodable(text) != text:
        raise argparse.ArgumentTypeError(
            f"'{abbreviate(text)}': not UTF-8, as Parquet requires; rename the directory"
        )
    return parse_path(text)


def parse_named_path(text: str) -> NamedPath:
    """Parse [NAME=]FILE into name and path; the default name is the file name without a common
    extension of runs and qrels.

    An existing path is taken literally, even if it contains `=`.
    """
    name, separator, file = text.partition("=")
    if not separator or os.path.exists(text):  # noqa: PTH110 accepts long names
        path = parse_path(text)
        file_name = escape_name(path.absolute().name)
        return EXTENSIONS.sub("", file_name) or file_name, path
    if not name.strip():
        raise argparse.ArgumentTypeError(f"'{abbreviate(text)}': expected NAME before =")
    return escape_name(name), parse_path(file)


@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    """Working directory."""

    work_dir: Path = option(
        parse=parse_work_dir,
        metavar="WORK_DIR",
        help="working directory, which keeps finished steps",
    )


@dataclass(frozen=True, kw_only=True)
class PrepareOptions(WorkOptions):
    """Options of all kinds of `prepare`."""

    overwrite: bool = option(
        False, help="overwrite data prepared from another input or with other settings"
    )


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """Directory of the corpus."""

    input_dir: Path = input_option("directory with the args.me corpus")


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Topics and corpus."""

    inputs: tuple[Path, ...] = input_option(
        "topics and args.me corpus: directory, archive or file; repeatable", metavar="INPUT"
    )


@dataclass(frozen=True, kw_only=True)
class DefaultInputOptions:
    """Topics and corpus, by default the sample."""

    inputs: tuple[Path, ...] = input_option(
        "topics and corpus: directory, archive or file; repeatable (default: sample)",
        (SAMPLE_INPUT,),
        variables=("inputDataset", "TIRA_INPUT_DATASET"),
        metavar="INPUT",
    )


@dataclass(frozen=True, kw_only=True)
class QrelsOptions:
    """One qrels file."""

    qrels: Path = option(metavar="FILE", help=QRELS_HELP)


@dataclass(frozen=True, kw_only=True)
class NamedQrelsOptions:
    """Qrels files with names."""

    qrels: tuple[NamedPath, ...] = qrels_option(
        f"{QRELS_HELP}; repeatable, e.g. relevance=FILE and quality=FILE"
    )


@dataclass(frozen=True, kw_only=True)
class TuningOptions:
    """Judgments and measure of a cross-validation."""

    qrels: tuple[NamedPath, ...] = qrels_option(
        f"{QRELS_HELP}; one file: 5-fold cross-validation over topics; several: one fold per file"
    )
    measure: str = option(
        "nDCG@5", choices=SELECTION_MEASURES, help="measure whose mean over topics is optimised"
    )


@dataclass(frozen=True, kw_only=True)
class OrderOptions:
    """Order of documents in runs."""

    order: Order = option("auto", help=f"order of documents in input runs; auto: {AUTO_ORDER}")


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """Directory of the checkpoints."""

    checkpoint_dir: Path = option(CHECKPOINT_DIR, "--checkpoints", help="checkpoint directory")


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Computing device."""

    device: Literal["auto", "cpu", "cuda"] = option(
        "auto", help="computing device; auto: GPU if available"
    )


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions(DeviceOptions):
    """Computing device and precision."""

    precision: Literal["float32", "bfloat16"] = option(
        "float32",
        help="precision of BERT encoders on CPU; "
        "bfloat16 requires AVX-512 BF16 or AMX and changes scores slightly",
    )


@dataclass(frozen=True, kw_only=True)
class ProcessOptions(DeviceOptions):
    """Computing device and processes."""

    processes: int | None = option(
        None,
        parse=parse_process_count,
        help="number of networks trained in parallel, one thread each "
        "(default: number of cores; 1 on a GPU)",
    )


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """Random seed."""

    seed: int = option(0, help="random seed")


def index_files_by_name(named_paths: Sequence[NamedPath], kind: str) -> dict[str, Path]:
    """Return the files by name; raise UsageError if two of this kind have the same name."""
    names = [name for name, _ in named_paths]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        files = " and ".join(str(file) for name, file in named_paths if name == duplicate)
        raise UsageError(
            f"{files}: duplicate {kind} name {abbreviate(duplicate)!r}; name each file with "
            "NAME=FILE"
        )
    return dict(named_paths)


def get_output(options: Any, *default: str) -> Path:
    """Return --output, else `default` in --work-dir; raise UsageError if both are missing."""
    if options.output is None and options.work_dir is None:
        raise UsageError("no output directory; add -o DIR or --work-dir WORK_DIR")
    # by default, no shipped file is overwritten
    output: Path = options.output or options.work_dir.joinpath(*default)
    return output


def get_checkpoint_output(options: Any, name: str) -> Path:
    """Return the directory of a checkpoint; raise OutputError if it holds other files."""
    output = get_output(options, "checkpoints", name)
    require_replaceable(output)
    return output


@dataclass(frozen=True, kw_only=True)
class StudyOptions(WorkOptions):
    """Options of all studies."""

    output: Path | None = output_option(
        "result CSV, next to which plots and further tables are written "
        "(default: in WORK_DIR/results)",
        "FILE",
    )


class Result(NamedTuple):
    """Table of a study; plots (PNG) and further tables by name."""

    table: pd.DataFrame
    plots: Mapping[str, bytes] = {}
    tables: Mapping[str, pd.DataFrame] = {}
