"""Run the steps of a graph in processes side by side, and resume after an interruption."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pandas as pd
import torch

from aragorn.errors import abbreviate_list, pluralise
from aragorn.paths import PACKAGE_DIR as ARAGORN_DIR
from aragorn.signals import on_interrupt
from aragorn.storage.atomic_files import create_directory, replace_atomic
from aragorn.storage.locks import lock_directory
from aragorn.storage.recorded_files import DECODING_ERRORS
from aragorn_training.commands.graph import Step, list_system_checkpoints
from aragorn_training.report.published import PACKAGE_DIR, STEP_SECONDS

log = logging.getLogger(__name__)

POLL_SECONDS = 0.05
PYTHONPATH = os.pathsep.join([str(ARAGORN_DIR.parent), str(PACKAGE_DIR.parent)])
# states of a step
NEW = "new"
OUTDATED = "outdated"
STARTED = "started"
FINISHED = "finished"
REUSED = "reused"


class Record(msgspec.Struct):
    """Record of a step in the working directory, written when its process starts and ends."""

    key: str  # see `Step.compute_key`
    device: str
    seconds: float = 0.0  # of all processes of the step
    output: str = ""  # of a finished step, see `Step.hash_output`
    is_reused: bool = False

    @property
    def is_computed(self) -> bool:
        """Whether the step has finished and its checkpoint was not copied."""
        return bool(self.output) and not self.is_reused


class Records:
    """The records of all steps in `work_dir`/steps, with the log of each."""

    def __init__(self, steps: Mapping[str, Step], work_dir: Path) -> None:
        """Load the records; `steps` are in an order in which each follows its requirements."""
        self.directory = work_dir / "steps"
        create_directory(self.directory)
        self.keys: dict[str, str] = {}
        for name, step in steps.items():
            self.keys[name] = step.compute_key([*map(self.keys.__getitem__, step.requires)])
        self._steps = steps

    def get_log(self, name: str) -> Path:
        """Return the path of a step's log."""
        return self.directory / f"{name.replace(' ', '-')}.log"

    def read(self, name: str) -> Record | None:
        """Read the record of a step; None if it never started or, with a warning, is damaged."""
        file = self.get_log(name).with_suffix(".json")
        try:
            return msgspec.json.decode(file.read_bytes(), type=Record) if file.exists() else None
        except DECODING_ERRORS as error:
            log.warning("%s: damaged (%s); %s counts as never started", file, error, name)
            return None

    def write(self, name: str, record: Record) -> None:
        """Write the record of a step."""
        replace_atomic(self.get_log(name).with_suffix(".json"), msgspec.json.encode(record))

    def get_state(self, name: str) -> str:
        """Return whether a step is NEW, FINISHED, STARTED, OUTDATED, i.e. with another key or
        output, or REUSED, i.e. its stored checkpoint is still to be copied."""
        record = self.read(name)
        step = self._steps[name]
        is_current = record is not None and record.key == self.keys[name]
        if record and is_current and record.output and record.output == step.hash_output():
            return FINISHED
        if step.stored:
            return REUSED
        if record is None:
            return NEW
        return STARTED if is_current and not record.output else OUTDATED


@dataclass
class Scheduler:
    """Processes of steps, at most `n_processes` at the same time, and one per element of `gpus`,
    the index of a GPU, among those that use a GPU; `gpus` is empty if the device is the CPU."""

    steps: Mapping[str, Step]
    records: Records
    device: str
    n_processes: int
    gpus: list[str]
    _running: dict[str, tuple[subprocess.Popen[bytes], float, str]] = field(default_factory=dict)

    def run(self, names: Iterable[str]) -> list[str]:
        """Run steps, each after its requirements; return those that failed or were skipped."""
        pending = [*names]
        failed = list[str]()
        with lock_directory(self.records.directory), on_interrupt(self._terminate):
            while pending or self._running:
                for name in pending.copy():
                    requires = self.steps[name].requires
                    unfinished = {*pending, *self._running}
                    if cause := next((step for step in requires if step in failed), None):
                        log.error("%s: skipped, since %s failed", name, cause)
                        failed.append(name)
                        pending.remove(name)
                    elif unfinished.isdisjoint(requires) and self._has_slot(name):
                        pending.remove(name)
                        self._start(name)
                time.sleep(POLL_SECONDS)
                processes = {name: process for name, (process, *_) in self._running.items()}
                ended = [name for name, process in processes.items() if process.poll() is not None]
                failed += [name for name in ended if self._end(name)]
        return failed

    def _has_slot(self, name: str) -> bool:
        is_gpu_free = bool(self.gpus) or self.device == "cpu" or not self.steps[name].uses_device
        return len(self._running) < self.n_processes and is_gpu_free

    def _start(self, name: str) -> None:
        step = self.steps[name]
        state = self.records.get_state(name)
        record = self.records.read(name)
        flags = ["--device", self.device] if step.uses_device else []
        gpu = self.gpus.pop() if step.uses_device and self.gpus else ""
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": PYTHONPATH}
        environment |= {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}
        seconds = record.seconds if record and state == STARTED else 0.0
        self.records.write(name, Record(self.records.keys[name], self.device, seconds))
        log_file = self.records.get_log(name)
        log.info("%s: started, log: %s", name, log_file)
        with log_file.open("ab") as stream:
            command = [sys.executable, "-m", "aragorn_training", *step.arguments, *flags]
            process = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)
        self._running[name] = process, time.monotonic(), gpu

    def _end(self, name: str) -> int:
        """Record a step whose process has ended, free its GPU and return the exit code."""
        process, start, gpu = self._running.pop(name)
        self.gpus += [gpu] if gpu else []
        self._record(name, start, is_finished=process.returncode == 0)
        if code := process.returncode:
            file = self.records.get_log(name)
            message = (file.read_text(errors="replace").splitlines() or ["no message"])[-1]
            log.error("%s: failed with exit code %d, log: %s: %s", name, code, file, message)
        else:
            log.info("%s: finished (%.0f s)", name, time.monotonic() - start)
        return code

    def _record(self, name: str, start: float, is_finished: bool) -> None:
        record = self.records.read(name) or Record(self.records.keys[name], self.device)
        record.seconds = round(record.seconds + time.monotonic() - start, 1)
        record.output = self.steps[name].hash_output() if is_finished else ""
        self.records.write(name, record)

    def _terminate(self) -> None:
        for name, (process, start, _) in self._running.items():
            process.terminate()
            self._record(name, start, is_finished=False)
        for process, *_ in self._running.values():
            process.wait()


def list_trained(work_dir: Path) -> list[str]:
    """Return the names of the checkpoints that steps have trained or fitted, not copied."""
    records = Records({}, work_dir)
    by_name = {name: records.read(name) for name in list_system_checkpoints()}
    return [name for name, record in by_name.items() if record and record.is_computed]


def format_plan(
    steps: Mapping[str, Step], selection: Iterable[str], records: Records, device: str
) -> str:
    """Format selected steps with state, duration and requirements, and what others are missing."""
    states = {name: records.get_state(name) for name in selection}
    seconds = _estimate_seconds(states, records, device)
    lines = [f"{'step':26}{'state':10}{'about':>7}  requires"]
    for name, state in states.items():
        duration = _format_duration(seconds[name])
        lines.append(f"{name:26}{state:10}{duration:>7}  {abbreviate_list(steps[name].requires)}")
    lines += [
        f"{name}: cannot be made, missing {', '.join(step.missing)}"
        for name, step in steps.items()
        if step.missing
    ]
    remaining = [seconds[name] for name, state in states.items() if state not in (FINISHED, REUSED)]
    totals = []
    if any(remaining):
        totals.append(f"about {_format_duration(sum(remaining))} of computing")
    if 0 in remaining:
        totals.append(f"{pluralise(remaining.count(0), 'step')} of unknown duration")
    note = " (steps not yet measured here: of the shipped recipes on the excerpt)" if totals else ""
    return "\n".join([*lines, f"remaining: {' and '.join(totals) or 'nothing'}{note}", ""])


def _estimate_seconds(names: Iterable[str], records: Records, device: str) -> dict[str, float]:
    """Return the seconds per step on a device: measured here, else of STEP_SECONDS, else 0."""
    table = pd.read_csv(STEP_SECONDS)
    rows = table[table["device"].isin(["cpu", device])].drop_duplicates("step", keep="last")
    seconds = dict(zip(rows["step"], rows["seconds"].astype(float), strict=True))
    for name in names:
        record = records.read(name)
        if record and record.is_computed and record.device == device:
            seconds[name] = record.seconds
    return {name: seconds.get(name, 0.0) for name in names}


def _format_duration(seconds: float) -> str:
    if not seconds:
        return "unknown"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def list_gpus(device: str, processes_per_gpu: int) -> list[str]:
    """Return the index of a GPU per process that may use it; none if the device is the CPU."""
    if device == "cpu":
        return []
    all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
    return os.environ.get("CUDA_VISIBLE_DEVICES", all_gpus).split(",") * processes_per_gpu
