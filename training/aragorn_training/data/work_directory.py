"""Lock a working directory, locate the prepared data in it and read its tables and manifests."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aragorn.errors import InputError
from aragorn.storage.atomic_files import create_directory
from aragorn.storage.locks import lock_directory
from aragorn.storage.recorded_files import MANIFEST, Record, read_record


@contextmanager
def lock_work_directory(directory: Path) -> Iterator[None]:
    """Lock a directory; raise InputError if it is missing, and OutputError if it is in use."""
    if not directory.is_dir():
        raise build_not_found_error(directory, directory, "pairs")
    with lock_directory(directory):
        yield


@contextmanager
def lock_run(run_name: str, directory: Path) -> Iterator[None]:
    """Create and lock the directory of a training run; other runs may be active."""
    if not directory.is_dir():
        raise build_not_found_error(directory, directory, "pairs")
    with open_folder(directory / "fit" / run_name, directory):
        yield


@contextmanager
def open_work_dir(work_dir: Path) -> Iterator[None]:
    """Create a working directory if it is missing, and lock it until the context ends."""
    create_directory(work_dir)
    with lock_work_directory(work_dir):
        yield


@contextmanager
def open_folder(folder: Path, work_dir: Path) -> Iterator[None]:
    """Create and lock a folder; other processes may use other folders at the same time."""
    create_directory(work_dir)
    create_directory(folder)
    with lock_directory(work_dir, shared=True), lock_directory(folder):
        yield


def read_prepared_manifest(directory: Path) -> Record:
    """Read the manifest of tables or vectors; raise InputError if none are prepared."""
    manifest = read_record(directory / MANIFEST)
    if not manifest.files:
        raise build_not_found_error(directory / MANIFEST, directory, "pairs")
    return manifest


def build_not_found_error(path: Path, work_dir: Path, *kinds: str) -> InputError:
    """Return the error for a missing file or directory that one of `prepare KIND` writes."""
    return InputError(f"{path}: not found; run {_format_commands(work_dir, *kinds)}")


@contextmanager
def convert_table_errors(path: Path, work_dir: Path, *kinds: str) -> Iterator[None]:
    """Convert errors in reading a table to InputErrors with the commands `prepare KIND`, one of
    which writes it."""
    try:
        yield
    except FileNotFoundError:
        raise build_not_found_error(path, work_dir, *kinds) from None
    except (OSError, pa.ArrowException) as error:
        commands = _format_commands(work_dir, *kinds)
        raise InputError(f"{path}: damaged ({error}); delete it and run {commands} again") from None


def iter_rows(
    file: Path, columns: list[str] | None, work_dir: Path, kind: str = "pairs"
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table of `prepare KIND` as dicts of some columns; None: all."""
    with convert_table_errors(file, work_dir, kind):
        for batch in pq.ParquetFile(file).iter_batches(2_000, columns=columns):
            yield from batch.to_pylist()


def get_hard_negatives_file(work_dir: Path, model: str) -> Path:
    """Return the path, in a working directory, of the hard negatives that a model has retrieved."""
    return work_dir / model / "unrelated.parquet"


def hash_json(value: object) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a JSON-serialisable value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _format_commands(work_dir: Path, *kinds: str) -> str:
    return " or ".join(
        f"`aragorn-training prepare {kind} -i INPUT --work-dir {work_dir}`" for kind in kinds
    )
