"""Runs the command line in this process on whatever lies there, and holds it to what it promises."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.logging import LogCaptureHandler

from submission.__main__ import main
from submission.data.run_validation import find_run_issues
from tests.conftest import argument

FINISHED = ("knrm", "snrm", "bm25", "dirichlet_rm3")  # the systems whose runs are there already
CODES = {0, 2, 3, 4, 5, 6}  # documented; 1 is an internal error
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028\u202e]")
DEEP = "[" * 100_000  # levels of JSON that never end
TOO_SMALL = {"too few lines", "too few topics"}  # kinds of faults
TOPIC = "<topic><number>{}</number><title>{}</title></topic>"
TOPICS = f"<topics>{TOPIC.format(1, 'Are zoos cruel?')}{TOPIC.format(2, 'golf')}</topics>"
ARGUMENTS = [
    argument("a1"), argument("a2", "Golf is a sport"), argument("a3", "Taxes should rise"), argument("a4", "Zoos!"),
    argument("a5", "Dogs make good pets"),
]  # fmt: skip

Said = tuple[int, str]


def write(file: Path, content: str | bytes) -> None:
    """Write texts as UTF-8, bytes as they are."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_input(directory: Path) -> Path:
    """A good input."""
    directory.mkdir(parents=True)
    (directory / "topics.xml").write_text(TOPICS)
    (directory / "args-me.json").write_text(json.dumps({"arguments": ARGUMENTS}))
    return directory


def endless(file: Path) -> None:
    """Put a link to a device that never ends in the place of a file."""
    file.unlink()
    file.symlink_to("/dev/zero")


class Program:
    """The command line with its directories, and what it said."""

    def __init__(self, folder: Path, checkpoints: Path, capture: pytest.CaptureFixture[str], log: LogCaptureHandler) -> None:
        self.input, self.output, self.work = folder / "input", folder / "out", folder / "work"
        self.checkpoints, self._capture, self._log = checkpoints, capture, log

    def rank(self, *flags: str, systems: tuple[str, ...] = ("bm25",)) -> Said:
        """Rank with flags; its exit code and what it said. Whatever it wrote is valid."""
        places = ["-i", str(self.input), "-o", str(self.output), "--checkpoints", str(self.checkpoints), "--device", "cpu"]
        said = self.call("rank", *places, *(flag for name in systems for flag in ("--system", name)), *flags)
        if said[0] in (0, 6):
            for run in [*(self.output / f"aragorn-{name}.txt" for name in systems), *self.output.glob("run.txt")]:
                if said[0] == 0 or run.exists():
                    assert not CONTROL.search(run.read_bytes().decode())
                    assert [fault for fault in find_run_issues(run, None, None) if fault.category not in TOO_SMALL] == [], (
                        run.read_text()
                    )
            assert not list(self.output.glob(f".*{os.getpid()}*.part"))
        return said

    def check(self, *flags: str) -> Said:
        """Check the input."""
        return self.call("check", "-i", str(self.input), "--checkpoints", str(self.checkpoints), *flags)

    def call(self, *arguments: str) -> Said:
        """Any command: it ends with a documented code and, where that is not 0, one line that says why."""
        self.forget()
        try:
            code = main(list(arguments))
        except SystemExit as ended:  # argparse's own
            code = int(str(ended.code))
        out, err = self._capture.readouterr()
        said = f"{self._log.stream.getvalue()}\n{out}\n{err}"
        assert code in CODES, said
        assert "Traceback" not in said, said
        if code:
            errors = [line for line in err.splitlines() if line.startswith(("error: ", "submission", "usage: "))]
            assert errors, said
            assert max(map(len, err.splitlines())) < 4000, err[:500]
        return code, said

    def forget(self) -> None:
        """Drop what was said."""
        self._log.reset()
        self._capture.readouterr()


def rank_anew(again: Program, finished: Path, what: str) -> str:
    """Rank with what is kept in the working directory; the runs are those of before."""
    shutil.rmtree(again.output)
    for lists in again.work.glob("ranking-*"):
        if not lists.match(what.partition("/")[0]):  # finished lists hide what they were made of
            shutil.rmtree(lists)
    code, said = again.rank("--work", str(again.work), systems=FINISHED)
    assert code == 0, said
    for name in FINISHED:
        run = f"aragorn-{name}.txt"
        assert (again.output / run).read_bytes() == (finished / "out" / run).read_bytes(), said
    return said


Damage = Callable[[Program], object]
