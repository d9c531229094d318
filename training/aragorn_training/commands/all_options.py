"""Define the options of `all`."""

from dataclasses import dataclass
from pathlib import Path

from aragorn.options import option
from aragorn.paths import CHECKPOINT_DIR
from aragorn_training.options import (
    QRELS_HELP,
    DeviceOptions,
    WorkOptions,
    input_option,
    output_option,
    parse_process_count,
)

VERDICTS = (
    "OK: metrics differ by at most 0.1 percentage points; near: by at most 2; FAIL: by more; "
    "other data, other recipe: not compared, since the stored checkpoint was made from other data "
    "or by another recipe; not stored: there is none"
)


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, WorkOptions):
    """Options of `all`."""

    input_dir: Path = input_option("directory with topics and the args.me corpus")
    data_dir: Path | None = option(
        None,
        "--data",
        help="directory of published data (argument quality, argument components), "
        "in any subdirectories",
    )
    qrels: Path | None = option(None, metavar="FILE", help=QRELS_HELP)
    checkpoint_dir: Path = option(
        CHECKPOINT_DIR,
        "--checkpoints",
        help=f"checkpoints with which the new ones are compared; verdicts: {VERDICTS}",
    )
    only: tuple[str, ...] = option(
        (),
        nargs="+",
        action="extend",
        help="names of the checkpoints or steps to make, with the steps that they require "
        "(default: all checkpoints)",
    )
    reuse: bool = option(
        False,
        help="take the checkpoints that those of --only require, and that WORK_DIR does not have, "
        "from --checkpoints instead of making them",
    )
    recipes_dir: Path | None = option(
        None,
        "--recipes",
        help="directory of recipes, grids and fusions that replace those of "
        "training/aragorn_training/configs by name",
    )
    output: Path | None = output_option(
        "directory to which the checkpoints, or those of --only, are copied at the end "
        "(default: they stay in WORK_DIR/checkpoints)"
    )
    processes: int | None = option(
        None,
        parse=parse_process_count,
        help="maximum number of processes, one thread each (default: number of cores)",
    )
    gpu_processes: int = option(
        3, parse=parse_process_count, help="maximum number of processes per GPU"
    )
    plan: bool = option(
        False,
        help="only print the plan; states: new, started (interrupted, resumed by the next call), "
        "outdated (made from other inputs, settings or code, and therefore recomputed), reused "
        "(copied from --checkpoints) and finished",
    )
