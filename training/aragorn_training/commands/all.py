"""Define the command `all`, which makes the checkpoints of all systems from a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aragorn.cli import Commands
from aragorn.options import option
from aragorn_training.options import (
    QRELS_HELP,
    CheckpointOptions,
    DeviceOptions,
    WorkOptions,
    add_command,
    input_option,
    output_option,
    parse_process_count,
)

if TYPE_CHECKING:
    from aragorn_training.commands.graph import Sources, Step
    from aragorn_training.commands.scheduler import Records

VERDICTS = (
    "OK: metrics differ by at most 0.1 percentage points; near: by at most 2; FAIL: by more; "
    "other data, other recipe: not compared, since the stored checkpoint was made from other data "
    "or by another recipe; not stored: there is none"
)


@dataclass(frozen=True, kw_only=True)
class AllOptions(DeviceOptions, CheckpointOptions, WorkOptions):
    """Options of `all`."""

    input_dir: Path = input_option("directory with topics and the args.me corpus")
    data_dir: Path | None = option(
        None,
        "--data",
        help="directory of published data (argument quality, argument components), "
        "in any subdirectories",
    )
    qrels: Path | None = option(None, metavar="FILE", help=QRELS_HELP)
    only: tuple[str, ...] = option(
        (),
        nargs="+",
        action="extend",
        help="names of the checkpoints or steps to make, with the steps that they require "
        "(default: all checkpoints)",
    )
    reuse: bool = option(
        False,
        help="take the checkpoints that those of --only require from --checkpoints "
        "instead of making them",
    )
    recipes_dir: Path | None = option(
        None,
        "--recipes",
        help="directory of recipes, grids and fusions that replace those of "
        "training/aragorn_training/configs by name",
    )
    output: Path | None = output_option(
        "directory to which the checkpoints are copied at the end "
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
        "outdated (made from other inputs, settings or code, and therefore recomputed) and finished",
    )


def add_all(commands: Commands) -> None:
    """Add the command `all`, whose help also explains the verdicts."""
    parser = add_command(commands, "all", make_all)
    parser.epilog = f"verdicts: {VERDICTS}. {parser.epilog}"


def make_all(options: AllOptions) -> None:
    """Make the checkpoints of all systems from a corpus; compare their metrics with stored ones."""
    from aragorn.engine.device import choose_device
    from aragorn.errors import ReproductionError, SystemsFailedError
    from aragorn.storage.atomic_files import create_directory
    from aragorn.storage.checkpoint_directory import require_replaceable
    from aragorn.threads import count_cpu_cores
    from aragorn_training.commands import graph
    from aragorn_training.commands.compare import compare_checkpoints
    from aragorn_training.commands.scheduler import FINISHED, Record, Records, Scheduler
    from aragorn_training.formatting import DASH

    sources = _find_sources(options)
    create_directory(options.work_dir)
    steps = graph.build_graph(sources)
    device = choose_device(options.device)
    selection = _select_steps(steps, options.only)
    records = Records({name: steps[name] for name in selection}, options.work_dir)
    seconds = _estimate_seconds(selection, records, device)
    relevant_steps = {name: steps[name] for name in selection} if options.only else steps
    print(_format_plan(relevant_steps, selection, records, seconds), flush=True)
    if options.plan:
        return
    outputs = {
        name: options.output / name
        for name in graph.list_system_checkpoints()
        if options.output and name in selection
    }
    for output in outputs.values():
        require_replaceable(output)
    checkpoints = options.work_dir / "checkpoints"
    for name in selection:
        stored = steps[name].stored
        if stored and records.get_state(name) != FINISHED:
            _copy_checkpoint(stored, checkpoints / name)
            records.write(name, Record(records.keys[name], device, is_finished=True))
    gpus = _list_gpus(device, options.gpu_processes)
    scheduler = Scheduler(steps, records, device, options.processes or count_cpu_cores(), gpus)
    failed = scheduler.run(name for name in selection if records.get_state(name) != FINISHED)
    finished = [
        name
        for name in selection
        if steps[name].output.parent.parent == checkpoints and name not in failed
    ]
    seconds = {name: record.seconds for name in finished if (record := records.read(name))}
    table = compare_checkpoints(seconds, checkpoints, options.checkpoint_dir)
    if finished:
        print(table.to_string(index=False, float_format="%.2f", na_rep=DASH))
    if failed:
        cause = f"steps failed or skipped: {', '.join(failed)}; all others finished"
        raise SystemsFailedError(
            f"{cause}; correct the errors above and run the same command again"
        )
    for name, output in outputs.items():
        if name in finished:
            _copy_checkpoint(checkpoints / name, output)
    if differing := sorted(set(table.loc[table["verdict"] == "FAIL", "checkpoint"])):
        raise ReproductionError(
            f"metrics differ by more than 2 points from those in {options.checkpoint_dir}: "
            f"{', '.join(differing)}"
        )


def _find_sources(options: AllOptions) -> Sources:
    """Return the inputs of the graph; raise InputError if one does not exist."""
    from aragorn.errors import InputError
    from aragorn_training.commands.graph import Sources

    for path in (options.input_dir, options.data_dir, options.qrels, options.recipes_dir):
        if path and not path.exists():
            raise InputError(f"{path}: not found; check the path")
    return Sources(
        options.input_dir,
        options.work_dir,
        options.data_dir,
        options.qrels,
        options.recipes_dir,
        options.checkpoint_dir if options.reuse else None,
        options.only,
    )


def _copy_checkpoint(source: Path, target: Path) -> None:
    """Copy a checkpoint, which replaces one at the target."""
    from aragorn.storage.atomic_files import write_directory_atomic

    write_directory_atomic(target, {file.name: file.read_bytes() for file in source.iterdir()})


def _select_steps(steps: Mapping[str, Step], only: Iterable[str]) -> list[str]:
    """Return the names of `only`, or of all steps that can be run, with required ones, in order;
    raise UsageError for a step that is unknown or lacks an input."""
    from aragorn.errors import UsageError, suggest

    for name in only:
        if name not in steps:
            raise UsageError(f"unknown step {name!r}; {suggest(name, steps)}")
        if steps[name].missing:
            raise UsageError(
                f"{name}: missing {', '.join(steps[name].missing)}; add it, or remove {name} from "
                "--only"
            )
    selection = {*only} or {
        name for name, step in steps.items() if not step.missing and step.command[0] != "prepare"
    }
    for name in reversed([*steps]):
        if name in selection:
            selection |= {*steps[name].requires}
    return [name for name in steps if name in selection]


def _estimate_seconds(names: Iterable[str], records: Records, device: str) -> dict[str, float]:
    """Return the seconds per step on a device: measured here, else of STEP_SECONDS, else 0."""
    import pandas as pd

    from aragorn_training.published import STEP_SECONDS

    table = pd.read_csv(STEP_SECONDS)
    rows = table[table["device"].isin(["cpu", device])].drop_duplicates("step", keep="last")
    seconds = dict(zip(rows["step"], rows["seconds"].astype(float), strict=True))
    for name in names:
        record = records.read(name)
        if record and record.is_finished and record.device == device:
            seconds[name] = record.seconds
    return {name: seconds.get(name, 0.0) for name in names}


def _format_plan(
    steps: Mapping[str, Step],
    selection: Iterable[str],
    records: Records,
    seconds: Mapping[str, float],
) -> str:
    """Format selected steps with state, duration and requirements, and what others are missing."""
    from aragorn.errors import abbreviate_list, pluralise
    from aragorn_training.commands.scheduler import FINISHED

    states = {name: records.get_state(name) for name in selection}
    lines = [f"{'step':26}{'state':10}{'about':>7}  requires"]
    for name, state in states.items():
        lines.append(
            f"{name:26}{state:10}{_format_duration(seconds[name]):>7}  "
            f"{abbreviate_list(steps[name].requires)}"
        )
    lines += [
        f"{name}: cannot be made, missing {', '.join(step.missing)}"
        for name, step in steps.items()
        if step.missing
    ]
    remaining = [seconds[name] for name, state in states.items() if state != FINISHED]
    totals = []
    if any(remaining):
        totals.append(f"about {_format_duration(sum(remaining))} of computing")
    if 0 in remaining:
        totals.append(f"{pluralise(remaining.count(0), 'step')} of unknown duration")
    return "\n".join([*lines, f"remaining: {' and '.join(totals) or 'nothing'}", ""])


def _format_duration(seconds: float) -> str:
    if not seconds:
        return "unknown"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _list_gpus(device: str, processes_per_gpu: int) -> list[str]:
    """Return the index of a GPU per process that may use it; none if the device is the CPU."""
    import os

    import torch

    if device == "cpu":
        return []
    visible_gpus = os.environ.get(
        "CUDA_VISIBLE_DEVICES", ",".join(map(str, range(torch.cuda.device_count())))
    ).split(",")
    return visible_gpus * processes_per_gpu
