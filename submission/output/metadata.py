"""ir-metadata.yml beside the runs (ir-metadata.org): who, with what, on what, how, from which data, and how long it took."""

from __future__ import annotations

import os
import platform
import resource
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
import yaml

from submission import __version__
from submission.disk.code import closure, code_fingerprint, libraries
from submission.disk.files import file_name, read_regular, write_whole
from submission.disk.provenance import read_provenance
from submission.output.directory import METADATA
from submission.paths import ROOT
from submission.systems.catalogue import System, name_of
from submission.systems.execution import Execution, walk


def write_metadata(
    directory: Path,
    team: str,
    called: Sequence[str],
    primary: System,
    runs: Mapping[str, Mapping[str, Any]],
    execution: Execution,
) -> None:
    """Write what an execution was.

    Args:
        directory: where the runs are.
        team: its name.
        called: the flags of `rank` as they were given.
        primary: whose run is run.txt.
        runs: what `run_entry` gave, or an earlier execution's file has, by the tags of the runs that are there.
        execution: what made them.

    Raises:
        OutputError: it cannot be written.
    """
    source, device, seconds = execution.input, execution.device, execution.stopwatch.seconds
    resources: dict[str, Any] = {
        "runtime": {"wallclock": f"{sum(seconds.values()):.1f} s"},
        "stages": {name: f"{value:.1f} s" for name, value in seconds.items()},
        "ram": {"peak": _megabytes(peak_memory())},
    }
    if device.type == "cuda" and torch.cuda.is_available():  # it may be elsewhere in a cluster
        resources["gpu"] = {"peak": _megabytes(torch.cuda.max_memory_allocated(device))}
    content = {
        "tag": f"{team}-{primary.name}",
        "actor": {"team": team},
        "platform": {**_platform(device), "engine": execution.engine.about},
        "implementation": {
            "executable": {"cmd": shlex.join(["./run.sh", *called])},
            "source": {
                "lang": ["Python"],
                "repository": os.environ.get("ARAGORN_SOURCE") or ROOT.as_uri(),
                "commit": os.environ.get("ARAGORN_REVISION") or "unknown",
                "version": __version__,
                "sha256": code_fingerprint(),
            },
        },
        "resources": resources,
        "method": {
            "automatic": True,
            "name": f"{team}-{primary.name}",
            "description": f"{primary.about} {source.note}.",
            "score ties": "by docno ascending; written scores fall strictly",
            "retrieval": [{"name": tag, **entry} for tag, entry in runs.items()],
        },
        "data": {
            "test collection": {
                "name": os.environ.get("TIRA_DATASET_ID") or file_name(source.directory.resolve()),
                "source": source.note,
                "topics": len(source.topics),
                "documents": execution.documents.size,
                "files": source.hashes,
            },
            "training data": [
                {"name": name, **data} for name, data in _together(run.get("trained on", {}) for run in runs.values()).items()
            ],
        },
    }
    write_whole(directory / METADATA, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=128))


def run_entry(system: System, execution: Execution, seconds: float, depth: int, left_out: int) -> dict[str, Any]:
    """Describe a run.

    Args:
        system: whose it is.
        execution: what made it.
        seconds: of the system alone, without what all of them share.
        depth: how many documents of a topic it has at most.
        left_out: how many documents of all topics were listed behind these.
    """
    entry: dict[str, Any] = {"method": system.name, "description": system.about, "seconds": round(seconds, 1)}
    entry["depth"] = depth
    if left_out:
        entry["cut"] = f"{left_out} documents behind the first {depth} of their topics"
    list_file, checkpoints = execution.input.list_file, execution.checkpoints
    entry |= {"ranks": system.stage.of_list(list_file)} if list_file else system.stage.metadata(name_of)
    opened = {part.checkpoint: part.opened(checkpoints) for part in walk(system.stage)}
    found = {name: checkpoint.fingerprint for name, checkpoint in opened.items() if name and checkpoint}
    if found:
        sources = [read_provenance(checkpoints.directory / name).trained_on for name in found]
        data = _together({source.data: {"licence": source.licence, "files": source.input}} for source in sources)
        entry |= {"checkpoints": found, "trained on": data}
    return entry


def earlier_entries(directory: Path) -> dict[str, dict[str, Any]]:
    """Read an earlier execution's entries by the tags of their runs; none where its file is missing or cannot be used."""
    try:
        content = yaml.safe_load(read_regular(directory / METADATA).decode())
        entries = msgspec.convert(content["method"]["retrieval"], list[dict[str, Any]])
        told = msgspec.convert(entries, list[_Told])
        return {one.name: {key: entry[key] for key in entry if key != "name"} for one, entry in zip(told, entries, strict=True)}
    except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError, RecursionError, AttributeError):
        return {}


class _Data(msgspec.Struct):
    """The data set of an earlier entry."""

    licence: str
    files: dict[str, str]


class _Told(msgspec.Struct, rename={"trained_on": "trained on"}):
    """An earlier entry, as far as it must be valid to be kept."""

    name: str
    trained_on: dict[str, _Data] = {}


def _platform(device: torch.device) -> dict[str, Any]:
    hardware: dict[str, Any] = {
        "cpu": {
            "model": processor(),
            "architecture": platform.machine(),
            "number of cores": os.cpu_count(),
            "number of threads used": torch.get_num_threads(),
        },
        "ram": _megabytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
    }
    if device.type == "cuda" and torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(device)
        hardware["gpu"] = {"model": properties.name, "memory": _megabytes(properties.total_memory)}
    used = [f"{name} {version}" for name, version in libraries(closure("submission.rank")).items()]
    return {
        "hardware": hardware,
        "operating system": {"kernel": platform.release(), "distribution": _distribution()},
        "software": {"libraries": [f"python {platform.python_version()}", *used]},
    }


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _together(parts: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Data sets by their names, each with its licence and all files that some part has of it."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, data in part.items():
            own = found.setdefault(name, {"licence": data["licence"], "files": {}})
            own["files"] |= data["files"]
    return found


def peak_memory() -> int:
    """This process's peak memory in bytes; not getrusage's, which on Linux begins with what the parent had in memory."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:  # another system than Linux, which counts in bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
