"""The output directory: locked while in use, one input's runs only, each file whole or absent."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from submission.errors import OutputError
from submission.files import sha256, try_remove, write_whole
from submission.work import TEMPORARY

log = logging.getLogger(__name__)

RECORD = "fingerprint.json"
RUN_FILE = "run.txt"  # the run of the primary system


class Output:
    """Runs in a directory, with a record (fingerprint.json) of what made them.

    A context manager: entering creates and locks the directory, leaving unlocks it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stale: list[str] = []
        self._record: dict[str, Any] = {}

    def __enter__(self) -> Output:
        """Raises OutputError: the directory cannot be made or written, or another process has it."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.directory, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise OutputError(f"{self.directory}: another process is writing there; wait for it or choose another") from None
        except OSError as error:
            raise OutputError(f"{self.directory}: not a directory to write to ({error.strerror}); choose another") from None
        try:
            for part in self.directory.glob(".*.part"):  # of a process that was killed
                try_remove(part)
            for work in self.directory.glob(f"{TEMPORARY}*"):
                shutil.rmtree(work, ignore_errors=True)
            probe = self.directory / ".writable"
            write_whole(probe, "")
            probe.unlink()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._lock)

    def begin(self, fingerprint: Mapping[str, str], names: Iterable[str], overwrite: bool) -> None:
        """Take up the runs that this fingerprint (inputs, settings, code) has here, or start anew.

        Args:
            fingerprint: what must be the same for all runs of a directory.
            names: the files that are going to be written.
            overwrite: replace the runs of another fingerprint.

        Raises:
            OutputError: the directory holds the runs of another fingerprint, or runs without one, and overwrite is false.
        """
        old = self._read_record()
        found = sorted({RUN_FILE, *names, *old.get("runs", {})} & {file.name for file in self.directory.iterdir()})
        differing = [key for key in fingerprint if old.get("fingerprint", {}).get(key) != fingerprint[key]]
        if found and differing and not overwrite:
            why = f"another {' and '.join(differing)}" if old else "unknown origin"
            raise OutputError(f"{self.directory}: holds runs of {why} ({', '.join(found)}); choose another or give --overwrite")
        if differing or not old:
            self._stale = found  # removed when the first new run is there
            old = {"fingerprint": dict(fingerprint), "runs": {}}
        self._record = old
        self._overwrite = overwrite

    def holds(self, name: str) -> bool:
        """Whether the record has a run file of that name."""
        return name in self._record["runs"]

    def finished(self, name: str, key: str) -> bool:
        """Whether the run file of that name is here, unchanged, and made by the same key (checkpoint and device).

        Raises:
            OutputError: it was made by another key, and overwriting was not asked for.
        """
        made = self._record["runs"].get(name)
        if made is None or not (self.directory / name).exists() or sha256(self.directory / name) != made["sha256"]:
            return False
        if made["key"] != key and not self._overwrite:
            raise OutputError(
                f"{self.directory / name}: made with another checkpoint or device; choose another output or give --overwrite"
            )
        return bool(made["key"] == key)

    def read(self, name: str) -> str:
        """The content of a run file. Raises OSError."""
        return (self.directory / name).read_text(encoding="utf-8")

    def write(self, name: str, content: str, key: str) -> None:
        """Write a run file as a whole and record what made it. Raises OutputError."""
        for stale in self._stale:
            try_remove(self.directory / stale)
        self._stale = []
        self._record["runs"][name] = {"key": key, "sha256": hashlib.sha256(content.encode()).hexdigest()}
        # The record comes first: killed in between, the file does not agree with it and is made again.
        write_whole(self.directory / RECORD, json.dumps(self._record, indent=1, sort_keys=True) + "\n")
        write_whole(self.directory / name, content)

    def _read_record(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads((self.directory / RECORD).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            log.warning("%s is damaged: the runs beside it are not reused", self.directory / RECORD)
            return {}
        if not (isinstance(record, dict) and all(isinstance(record.get(key), dict) for key in ("fingerprint", "runs"))):
            log.warning("%s is damaged: the runs beside it are not reused", self.directory / RECORD)
            return {}
        return record
