"""What identifies inputs and code: hashes that decide whether earlier results may be used."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache

from submission.disk.files import sha256
from submission.paths import PACKAGE, STOP_WORDS


def fingerprint(hashes: Mapping[str, str]) -> str:
    """The hash of files' names and hashes."""
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode()).hexdigest()


@cache
def code_fingerprint() -> str:
    """The hash of everything in this package that decides what a run says."""
    files = sorted([*PACKAGE.rglob("*.py"), STOP_WORDS])
    return fingerprint({str(file.relative_to(PACKAGE)): sha256(file) for file in files})
