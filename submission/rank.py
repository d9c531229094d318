"""Rank documents for all topics and write one TREC run per system."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from submission.data.dataset import Input
from submission.data.ranking_order import Order
from submission.engine.base import Engine
from submission.engine.factory import open_engine
from submission.errors import InputError, OutputError, SubmissionError, SystemsFailedError, UsageError
from submission.inference.device import choose_device, choose_precision, limit_threads
from submission.output.ir_metadata import earlier_entries, run_entry, write_metadata
from submission.output.run_directory import RUN_FILE, Output
from submission.output.runs import check_tag, run_text
from submission.rankings import DEEPEST, DEPTH, cut
from submission.storage.cache_directory import Work
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems import catalogue
from submission.systems.catalogue import System
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Execution

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """Options of the rank command."""

    input: Path
    input_run: Path | None
    output: Path
    systems: list[str]
    team: str
    depth: int | None  # None: depth of the supplied ranking, else DEPTH
    order: Order
    device: str
    precision: str
    engine: str | None
    shared_work: bool
    checkpoints: Path
    work: Path | None
    overwrite: bool
    called: Sequence[str] = ()  # command-line arguments


def rank(job: Job) -> None:
    """Write <team>-<system>.txt for every system, and run.txt for the primary one (the first named, else fusion).

    Skips systems whose runs exist for the same inputs, settings, checkpoints and code.

    Raises:
        UsageError, InputError, CheckpointError, OutputError: If no run can be written.
        SystemsFailedError: If some systems failed; the runs of the others are written.
    """
    check_tag(job.team)
    if job.work and job.work.resolve() == job.output.resolve():
        raise UsageError(f"--work {job.work}: must differ from --output; choose another directory")
    if job.shared_work and not (job.engine and job.work):
        raise UsageError("--shared-work requires --engine ray and --work; give all three, or omit it")
    with open_engine(job.engine, job.shared_work) as engine:
        _rank(job, engine)


def _rank(job: Job, engine: Engine) -> None:
    device = choose_device(job.device, engine)
    checkpoints = Checkpoints(job.checkpoints, choose_precision(job.precision, device))
    systems = catalogue.choose(job.systems, checkpoints)
    primary = catalogue.find(job.systems[0] if job.systems else catalogue.PRIMARY_SYSTEM)
    log.info("device %s, %d threads, engine %s", device.type, limit_threads(), engine.about)
    dataset = Input(job.input, job.input_run, order=job.order)
    log.info("%s", dataset.note)
    depth = _depth(job, dataset)
    failures: dict[str, Exception] = {}
    with Output(job.output) as output, Work(job.work, job.output) as cache:
        execution = Execution(dataset, checkpoints, device, cache, engine)
        settings = {"input": dataset.fingerprint, "team": job.team, "depth": str(depth)}
        output.begin(settings, [f"{_tag(job, system)}.txt" for system in systems], job.overwrite)
        previous_entries = earlier_entries(job.output)
        entries = {tag: entry for tag, entry in previous_entries.items() if output.holds(f"{tag}.txt")}
        for system in systems:
            start = time.monotonic()
            try:
                with dataset.stopwatch.stage(system.name):
                    is_current, dropped_count = _one(system, job, depth, execution, output, system == primary)
            except (InputError, OutputError):
                raise  # affects all systems alike
            except Exception as error:
                failures[system.name] = error
                log.error("%s: failed: %s", system.name, error, exc_info=not isinstance(error, SubmissionError))
            else:
                state = "up to date, skipped" if is_current else "done"
                log.info("%s: %s (%.1f s)", system.name, state, time.monotonic() - start)
                if not is_current or _tag(job, system) not in entries:
                    seconds = dataset.stopwatch.seconds[system.name]
                    entries[_tag(job, system)] = run_entry(system, execution, seconds, depth, dropped_count)
        if entries != previous_entries:  # else keep the metadata of the execution that wrote the runs
            write_metadata(job.output, job.team, job.called, primary, entries, execution)
    if failures and len(failures) == len(systems):
        raise next(iter(failures.values()))
    if failures:
        raise SystemsFailedError(f"systems failed: {', '.join(failures)}; the other runs are in {job.output}")
    log.info("%d runs in %s", len(systems), job.output)


def _depth(job: Job, dataset: Input) -> int:
    """Return the requested depth, else that of the supplied ranking."""
    supplied_depth = dataset.longest_list
    depth = job.depth or min(supplied_depth or DEPTH, DEEPEST)
    if supplied_depth and supplied_depth > depth:
        message = "%s: up to %d documents per topic, runs truncated to %d; change with --depth"
        log.warning(message, dataset.list_file, supplied_depth, depth)
    return depth


def _one(system: System, job: Job, depth: int, execution: Execution, output: Output, primary: bool) -> tuple[bool, int]:
    """Write a system's run unless it is up to date; return whether it was, and how many documents were truncated."""
    code = code_fingerprint(cut.__module__, run_text.__module__)
    key, name = f"{execution.key(system.stage)} {code}", f"{_tag(job, system)}.txt"
    is_current, dropped_count = output.finished(name, key), 0
    if is_current:
        text = output.read(name)
    else:
        rankings = execution.lists(system.stage)
        truncated = cut(rankings, depth)
        dropped_count = len(rankings) - len(truncated)
        if dropped_count:
            message = "%s: truncated to %d documents per topic, %d documents dropped"
            log.info(message, system.name, depth, dropped_count)
        text = run_text(truncated, _tag(job, system))
        output.write(name, text, key)
    if primary:
        output.write(RUN_FILE, text, f"{name} {key}")
    return is_current, dropped_count


def _tag(job: Job, system: System) -> str:
    return f"{job.team}-{system.name}"
