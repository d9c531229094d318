"""Lock a working directory, locate prepared data in it and read their tables and records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from submission.errors import InputError
from submission.storage.artifact_store import MANIFEST, Manifest, read_manifest
from submission.storage.atomic_files import create_directory
from submission.storage.locks import lock_directory


@contextmanager
def lock_work_directory(directory: Path) -> Iterator[None]:
    """Lock a working directory for this process.

    Raises:
        InputError: the directory does not exist.
        OutputError: another process has locked it.
    """
    if not directory.is_dir():
        raise _not_prepared(directory)
    with lock_directory(directory):
        yield


@contextmanager
def lock_run(run_name: str, directory: Path) -> Iterator[None]:
    """Lock one run of a working directory; other runs may use the same tables.

    Raises:
        InputError, OutputError: see `held`.
    """
    if not directory.is_dir():
        raise _not_prepared(directory)
    run_dir = directory / "fit" / run_name
    create_directory(run_dir)
    with lock_directory(directory, shared=True), lock_directory(run_dir):
        yield


def read_table_record(directory: Path) -> Manifest:
    """Read the record of prepared tables or vectors.

    Raises:
        InputError: the record is missing or damaged.
    """
    record = read_manifest(directory / MANIFEST)
    if not record.files:
        raise _not_prepared(directory)
    return record


def not_found(path: Path, kind: str) -> InputError:
    """Return the error for prepared data that are missing.

    Args:
        path: where they should be.
        kind: the kind of `prepare` that writes them, with its flags.
    """
    return InputError(f"{path}: not found; run `python -m training prepare {kind}`")


@contextmanager
def reading(path: Path, kind: str, flags: str = "") -> Iterator[None]:
    """Raise InputError if a prepared Parquet file is missing or damaged.

    Args:
        path: the file that is read.
        kind: the kind of `prepare` that writes it.
        flags: its flags, if the file is missing.
    """
    try:
        yield
    except FileNotFoundError:
        raise not_found(path, f"{kind} {flags}".strip()) from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: damaged ({error}); delete it and run `python -m training prepare {kind}` again") from None


def table_rows(file: Path, columns: list[str] | None, kind: str = "pairs") -> Iterator[dict[str, Any]]:
    """Yield the rows of a prepared table as dicts with some columns, or all (None).

    Raises:
        InputError: the table is missing or damaged.
    """
    with reading(file, kind):
        for batch in pq.ParquetFile(file).iter_batches(2_000, columns=columns):
            yield from batch.to_pylist()


def unrelated_file(work: Path, run_name: str) -> Path:
    """Return the path of a table of hard negatives."""
    return work / run_name / "unrelated.parquet"


def json_hash(value: object) -> str:
    """Return a short hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _not_prepared(directory: Path) -> InputError:
    command = f"`python -m training prepare pairs -i INPUT --work {directory}`"
    return InputError(f"{directory}: not a working directory; run {command}")
