"""The output directory: held while in use, one input's runs only, each file whole or absent."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from submission.disk.files import make_directory, read_regular, remove_leftovers, write_whole
from submission.disk.kept import Kept
from submission.disk.locked import locked
from submission.disk.work import remove_left
from submission.errors import OutputError

log = logging.getLogger(__name__)

RECORD = "fingerprint.json"
RUN_FILE = "run.txt"  # the run of the primary system
METADATA = "ir-metadata.yml"


class Output:
    """Runs in a directory, with a record (fingerprint.json) of what made them.

    A context manager: entering creates and locks the directory, leaving unlocks it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __enter__(self) -> Output:
        """Raises OutputError: the directory cannot be made or written, or another process has it."""
        with ExitStack() as stack:
            make_directory(self.directory)
            stack.enter_context(locked(self.directory))
            remove_left(self.directory)
            probe = self.directory / ".writable"
            write_whole(probe, "")
            probe.unlink()
            self._open = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def begin(self, fingerprint: Mapping[str, str], names: Iterable[str], overwrite: bool) -> None:
        """Take up the runs that this fingerprint (inputs, settings, code) has here, or start anew.

        Args:
            fingerprint: what must be the same for all runs of a directory.
            names: the files that are going to be written.
            overwrite: replace the runs of another fingerprint.

        Raises:
            OutputError: the directory holds the runs of another fingerprint, or runs without one, and overwrite is false.
        """
        self._kept = Kept(self.directory, fingerprint, overwrite, RECORD, [RUN_FILE, *names])
        remove_leftovers(self.directory, {METADATA})
        self._overwrite = overwrite

    def holds(self, name: str) -> bool:
        """Tell whether the record has a run file of that name."""
        return name in self._kept

    def finished(self, name: str, key: str) -> bool:
        """Tell whether a run file is here, unchanged, and made by the same key (checkpoints, device and precision).

        Raises:
            OutputError: it was made by another key, and overwriting was not asked for.
        """
        made = self._kept.key(name)
        if made not in (None, key) and not self._overwrite:
            raise OutputError(
                f"{self.directory / name}: made with another checkpoint, device or precision; choose another output or give "
                "--overwrite"
            )
        return made == key

    def read(self, name: str) -> str:
        """The content of a run file. Raises OSError."""
        return read_regular(self.directory / name).decode()

    def write(self, name: str, content: str, key: str) -> None:
        """Write a run file as a whole and record what made it. Raises OutputError."""
        self._kept.write(name, content, key)
