"""The main job: topics and documents in, one TREC run per system out."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from submission.disk.code import code_fingerprint
from submission.disk.work import Work
from submission.engine.choice import open_engine
from submission.engine.engine import Engine
from submission.errors import InputError, OutputError, SubmissionError, SystemsFailedError, UsageError
from submission.input.directory import Input
from submission.input.order import Order
from submission.lists import DEEPEST, DEPTH, cut
from submission.output.directory import RUN_FILE, Output
from submission.output.metadata import earlier_entries, run_entry, write_metadata
from submission.output.runs import check_tag, run_text
from submission.scoring.device import choose_device, choose_precision, limit_threads
from submission.systems import catalogue
from submission.systems.catalogue import System
from submission.systems.execution import Execution
from submission.systems.remembered import Checkpoints

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """The flags of `rank`, a field of the same name each."""

    input: Path
    input_run: Path | None
    output: Path
    systems: list[str]
    team: str
    depth: int | None  # None: that of the list that was handed over, else DEPTH
    order: Order
    device: str
    precision: str
    engine: str | None
    shared_work: bool
    checkpoints: Path
    work: Path | None
    overwrite: bool
    called: Sequence[str] = ()  # the flags as they were given


def rank(job: Job) -> None:
    """Write `<team>-<system>.txt` for every system and `run.txt`, the run of the primary one (the first named, else fusion).

    A system whose run is already there, made from the same inputs, settings, checkpoints and code, is not computed again.

    Raises:
        UsageError, InputError, CheckpointError, OutputError: nothing could be written.
        SystemsFailedError: some systems failed, the others are written.
    """
    check_tag(job.team)
    if job.work and job.work.resolve() == job.output.resolve():
        raise UsageError(f"--work {job.work}: must differ from --output, whose directory holds runs only; choose another")
    if job.shared_work and not (job.engine and job.work):
        raise UsageError("--shared-work: says something of --work and --engine; give all three, or leave it out")
    with open_engine(job.engine, job.shared_work) as engine:
        _rank(job, engine)


def _rank(job: Job, engine: Engine) -> None:
    device = choose_device(job.device, engine)
    checkpoints = Checkpoints(job.checkpoints, choose_precision(job.precision, device))
    chosen = catalogue.choose(job.systems, checkpoints)
    primary = catalogue.find(job.systems[0] if job.systems else catalogue.PRIMARY_SYSTEM)
    log.info("computing on %s with %d threads, parts in %s", device.type, limit_threads(), engine.about)
    source = Input(job.input, job.input_run, order=job.order)
    log.info("%s", source.note)
    depth = _depth(job, source)
    failed: dict[str, Exception] = {}
    with Output(job.output) as output, Work(job.work, job.output) as work:
        execution = Execution(source, checkpoints, device, work, engine)
        settings = {"input": source.fingerprint, "code": code_fingerprint(), "team": job.team, "depth": str(depth)}
        output.begin(settings, [f"{_tag(job, system)}.txt" for system in chosen], job.overwrite)
        earlier = earlier_entries(job.output)
        entries = {tag: entry for tag, entry in earlier.items() if output.holds(f"{tag}.txt")}
        for system in chosen:
            start = time.monotonic()
            try:
                with source.stopwatch.stage(system.name):
                    reused, left_out = _one(system, job, depth, execution, output, system == primary)
            except (InputError, OutputError):
                raise  # not this system's fault: the others would fail alike
            except Exception as error:
                failed[system.name] = error
                log.error("%s failed: %s", system.name, error, exc_info=not isinstance(error, SubmissionError))
            else:
                log.info("%s: %s (%.1f s)", system.name, "already there" if reused else "done", time.monotonic() - start)
                if not reused or _tag(job, system) not in entries:
                    seconds = source.stopwatch.seconds[system.name]
                    entries[_tag(job, system)] = run_entry(system, execution, seconds, depth, left_out)
        if entries != earlier:  # otherwise the file tells of the execution that made the runs
            write_metadata(job.output, job.team, job.called, primary, entries, execution)
    if failed and len(failed) == len(chosen):
        raise next(iter(failed.values()))
    if failed:
        raise SystemsFailedError(f"failed: {', '.join(failed)}; the runs of the other systems are in {job.output}")
    log.info("%d runs in %s", len(chosen), job.output)


def _depth(job: Job, source: Input) -> int:
    """Return the depth of a run: as asked for, else that of the list that was handed over."""
    longest = source.longest_list
    depth = job.depth or min(longest or DEPTH, DEEPEST)
    if longest and longest > depth:
        log.warning("%s: lists up to %d documents a topic, runs are cut at %d (--depth)", source.list_file, longest, depth)
    return depth


def _one(system: System, job: Job, depth: int, execution: Execution, output: Output, primary: bool) -> tuple[bool, int]:
    """Make sure that a system's run is there; whether it was already, and how many documents were found beyond its depth."""
    key, name = execution.key(system.stage), f"{_tag(job, system)}.txt"
    reused, left_out = output.finished(name, key), 0
    if reused:
        text = output.read(name)
    else:
        found = execution.lists(system.stage)
        listed = cut(found, depth)
        left_out = len(found) - len(listed)
        if left_out:
            log.info("%s: cut at %d documents a topic, %d behind them are left out", system.name, depth, left_out)
        text = run_text(listed, _tag(job, system))
        output.write(name, text, key)
    if primary:
        output.write(RUN_FILE, text, f"{name} {key}")
    return reused, left_out


def _tag(job: Job, system: System) -> str:
    return f"{job.team}-{system.name}"
