"""Read and write checkpoint directories with provenance.json: hashes of files, training data.

Functions that read raise CheckpointError if a file is missing, unreadable, damaged or malformed.
They first restore a directory whose replacement was interrupted.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aragorn import __version__
from aragorn.errors import (
    CheckpointError,
    InsufficientMemoryError,
    OutputError,
    abbreviate,
    abbreviate_list,
    as_memory_errors,
    describe_read_error,
)
from aragorn.storage.atomic_files import (
    build_unwritable_directory_error,
    read_regular,
    recover_directory,
    remove_stale_files,
    replace_directory,
    sha256_file,
)

T = TypeVar("T")

CONFIG = "config.json"
METRICS = "metrics.json"
PROVENANCE = "provenance.json"
CARD = "README.md"


class TrainingData(msgspec.Struct):
    """Origin of a checkpoint's training data: input files, data set and licence."""

    input: dict[str, str] = {}  # SHA-256 by file name
    data: str = "args.me"  # name of the data set
    licence: str = "CC BY 4.0"


class Provenance(msgspec.Struct):
    """Entries that every provenance.json has; networks and fusions add further entries.

    The entry `version`, of the package that wrote the checkpoint, is missing in older checkpoints.
    """

    files: dict[str, str]  # SHA-256 by file name
    training_data: TrainingData = msgspec.field(default_factory=TrainingData)


def write_with_provenance(
    directory: Path, contents: Mapping[str, bytes], provenance: Mapping[str, Any]
) -> None:
    """Write a checkpoint directory atomically: `contents` by name, and their provenance."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    remove_stale_files(directory.parent, {directory.name})
    with replace_directory(directory) as temporary:
        for name, content in contents.items():
            (temporary / name).write_bytes(content)
        entries = {"version": __version__, **provenance, "files": hashes}
        (temporary / PROVENANCE).write_bytes(encode_json(entries))


def require_replaceable(directory: Path) -> None:
    """Raise OutputError if writing a checkpoint would delete other files or follow a link."""
    if directory.is_symlink():
        raise OutputError(f"{directory}: a symbolic link; pass its target or another directory")
    try:
        has_files = directory.exists() and any(directory.iterdir())
    except OSError as error:
        raise build_unwritable_directory_error(directory, error) from None
    if has_files and not (directory / PROVENANCE).is_file():
        raise OutputError(
            f"{directory}: not a checkpoint directory; move it away or choose another --output"
        )


@contextmanager
def as_checkpoint_read_errors() -> Iterator[None]:
    """Convert OSErrors of a function or `with` block that reads checkpoints to CheckpointErrors."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{error.filename}: {describe_read_error(error)}") from None


@as_checkpoint_read_errors()
def verify_files(directory: Path, files: Collection[str]) -> dict[str, str]:
    """Verify all files of provenance.json, at least `files`; return the SHA-256 by file name."""
    require_files(directory, (*files, PROVENANCE))
    hashes = read_provenance(directory).files
    require_hashes(directory, hashes, files)
    if any(Path(name).name != name for name in hashes):
        raise _build_damage_error(directory / PROVENANCE, "lists files outside the directory")
    require_files(directory, hashes)
    for name, expected_hash in hashes.items():
        if sha256_file(directory / name) != expected_hash:
            raise _build_damage_error(directory / name, f"SHA-256 is not {expected_hash[:12]}…")
    return hashes


def require_files(directory: Path, files: Collection[str]) -> None:
    """Raise CheckpointError if a checkpoint directory or one of its files is missing."""
    recover_directory(directory)
    if not directory.is_dir():
        available_names = sorted(path.name for path in directory.parent.glob("*/"))
        names = abbreviate_list(available_names) or "none"
        raise CheckpointError(
            f"{directory}: checkpoint not found; restore it from a copy of the package, or make it "
            f"with `aragorn-training all --only {directory.name}`; available: {names}"
        )
    missing_files = [name for name in files if not (directory / name).is_file()]
    if missing_files:
        raise CheckpointError(
            f"{directory}: missing {', '.join(missing_files)}; restore the checkpoint "
            f"with `git checkout -- {directory}` or from a copy of the package"
        )


def require_hashes(directory: Path, hashes: Collection[str], files: Collection[str]) -> None:
    """Raise CheckpointError if `hashes`, read from provenance.json, lacks one of `files`."""
    unlisted_files = sorted({*files} - {*hashes})
    if unlisted_files:
        raise _build_damage_error(
            directory / PROVENANCE, f"lists no hash of {', '.join(unlisted_files)}"
        )


@as_checkpoint_read_errors()
def read_provenance(directory: Path) -> Provenance:
    """Read the provenance.json of a checkpoint, without verifying its files."""
    require_files(directory, (PROVENANCE,))
    try:
        return msgspec.json.decode(read_regular(directory / PROVENANCE), type=Provenance)
    except (ValueError, RecursionError) as error:
        raise _build_damage_error(directory / PROVENANCE, error) from None


def read_config(directory: Path, config_type: type[T]) -> T:
    """Verify a checkpoint, and read its config.json as `config_type`."""
    verify_files(directory, (CONFIG,))
    with as_checkpoint_errors(directory):
        return msgspec.convert(read_json(directory / CONFIG), config_type)


@contextmanager
def as_checkpoint_errors(directory: Path) -> Iterator[None]:
    """Re-raise loading failures as CheckpointError or InsufficientMemoryError."""
    try:
        with as_memory_errors(directory):
            yield
    except (CheckpointError, InsufficientMemoryError):
        raise
    except Exception as error:  # of any library
        cause = abbreviate(f"{type(error).__name__}: {error}", 500)
        raise CheckpointError(
            f"{directory}: files intact, but not loadable by version {__version__} ({cause}); if "
            "another version wrote it, use the checkpoint of this version or retrain it"
        ) from None


def read_json(file: Path) -> Any:
    """Read a JSON file; raise OSError if it is unreadable, ValueError if it is malformed."""
    return json.loads(read_regular(file).decode())


def encode_json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _build_damage_error(file: Path, reason: object) -> CheckpointError:
    return CheckpointError(
        f"{file}: damaged ({reason}); restore the checkpoint with `git checkout -- {file.parent}` "
        "or from a copy of the package"
    )
