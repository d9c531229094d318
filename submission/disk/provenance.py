"""Directories with a provenance.json: the hashes of all other files, and what these were made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from submission import __version__
from submission.disk.files import sha256, write_directory
from submission.errors import CheckpointError

CONFIG, METRICS, PROVENANCE, CARD = "config.json", "metrics.json", "provenance.json", "README.md"


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
    try:
        hashes: dict[str, str] = load_json(directory / PROVENANCE)["files"]
        unnamed = sorted({*files} - {*hashes})
        if unnamed:
            raise ValueError(f"no hash of {', '.join(unnamed)}")
        expected = [*hashes, PROVENANCE]
    except FileNotFoundError:
        expected = [*files, PROVENANCE]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{directory / PROVENANCE}: damaged ({error}); restore the file") from None
    missing = [name for name in expected if not (directory / name).is_file()]
    if missing:
        raise CheckpointError(f"{directory}: missing {', '.join(missing)}; restore the checkpoint's directory")
    for name, value in hashes.items():
        if sha256(directory / name) != value:
            raise CheckpointError(f"{directory / name}: damaged, its SHA-256 is not {value[:12]}…; restore the file")
    return hashes


def other_version(directory: Path, error: Exception, version: object) -> CheckpointError:
    """What to raise where a directory's files do not fit this code."""
    return CheckpointError(
        f"{directory}: written by version {version} of the code, does not fit this one, {__version__} ({error}); make it again"
    )


def load_json(file: Path) -> Any:
    """The content of a JSON file. Raises OSError, ValueError."""
    return json.loads(file.read_text(encoding="utf-8"))


def dump_json(value: object) -> bytes:
    """A JSON file's content."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
