"""Directories with a provenance.json: the hashes of all other files, and what these were made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from submission import __version__
from submission.disk.files import read_regular, sha256, write_directory
from submission.errors import CheckpointError

T = TypeVar("T")

CONFIG, METRICS, PROVENANCE, CARD = "config.json", "metrics.json", "provenance.json", "README.md"


class Source(msgspec.Struct):
    """The files that something was made from, with their hashes; and whose data they are."""

    input: dict[str, str] = {}
    data: str = "args.me"
    licence: str = "CC BY 4.0"


class Provenance(msgspec.Struct, rename={"trained_on": "trained on"}):
    """The keys that every provenance.json has; those of networks and fusions have more."""

    files: dict[str, str]
    trained_on: Source = msgspec.field(default_factory=Source)


def write_with_provenance(directory: Path, contents: Mapping[str, bytes], provenance: Mapping[str, Any]) -> None:
    """Write such a directory as a whole. Raises OutputError: it cannot be written; an older one is still there."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    write_directory(directory, {**contents, PROVENANCE: dump_json({**provenance, "files": hashes})})


def verified_hashes(directory: Path, files: Collection[str]) -> dict[str, str]:
    """The hashes of a directory's files as provenance.json has them, after comparing; it must have those of `files`.

    Raises:
        CheckpointError: there is no such directory, files are missing (all of them named), or one is damaged.
    """
    if not directory.is_dir():
        present = ", ".join(sorted(path.name for path in directory.parent.glob("*/"))) or "none"
        raise CheckpointError(f"{directory}: no such checkpoint; present: {present}. `python -m training` makes them (README)")
    hashes = read_provenance(directory).files if (directory / PROVENANCE).exists() else dict.fromkeys(files, "")
    refuse_unnamed(directory, hashes, files)
    if any(Path(name).name != name for name in hashes):
        raise CheckpointError(f"{directory / PROVENANCE}: damaged (it names files elsewhere); restore the file")
    expected = [*hashes, PROVENANCE]
    missing = [name for name in expected if not (directory / name).is_file()]
    if missing:
        raise CheckpointError(f"{directory}: missing {', '.join(missing)}; restore the checkpoint's directory")
    for name, value in hashes.items():
        try:
            found = sha256(directory / name)
        except OSError as error:
            raise CheckpointError(f"{directory / name}: cannot be read ({error.strerror}); restore the file") from None
        if found != value:
            raise CheckpointError(f"{directory / name}: damaged, its SHA-256 is not {value[:12]}…; restore the file")
    return hashes


def refuse_unnamed(directory: Path, hashes: Collection[str], files: Collection[str]) -> None:
    """Raises CheckpointError: a directory's provenance.json has no hash of one of these files."""
    unnamed = sorted({*files} - {*hashes})
    if unnamed:
        raise CheckpointError(f"{directory / PROVENANCE}: damaged (no hash of {', '.join(unnamed)}); restore the file")


def read_provenance(directory: Path) -> Provenance:
    """Read a directory's provenance.json. Raises CheckpointError: it cannot be read, or is of another form."""
    try:
        return msgspec.json.decode(read_regular(directory / PROVENANCE), type=Provenance)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{directory / PROVENANCE}: damaged ({error}); restore the file") from None


def read_config(directory: Path, form: type[T]) -> T:
    """Read the config.json of such a directory, `version` included. Raises CheckpointError: it is missing or damaged."""
    verified_hashes(directory, (CONFIG,))
    version: object = "unknown"
    try:
        config = load_json(directory / CONFIG)
        version = config["version"]
        return msgspec.convert(config, form)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise other_version(directory, error, version) from None


def other_version(directory: Path, error: Exception, version: object) -> CheckpointError:
    """Return the error to raise where a directory's files do not fit this code."""
    return CheckpointError(
        f"{directory}: written by version {version} of the code, does not fit this one, {__version__} ({error}); make it again"
    )


def load_json(file: Path) -> Any:
    """The content of a JSON file. Raises OSError, ValueError."""
    return json.loads(read_regular(file).decode())


def dump_json(value: object) -> bytes:
    """A JSON file's content."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
