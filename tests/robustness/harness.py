"""A command line that runs in this process and whose exit codes, messages and runs are checked."""

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
from tests.conftest import make_argument

FINISHED = ("knrm", "snrm", "bm25", "dirichlet_rm3")  # systems of the fixture `finished`
EXIT_CODES = {0, 2, 3, 4, 5, 6}  # all but 1, an internal error
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028\u202e]")
DEEP = "[" * 100_000  # unclosed JSON arrays
TOO_SMALL = {"too few lines", "too few topics"}  # issues that every small run has
TOPIC = "<topic><number>{}</number><title>{}</title></topic>"
TOPICS = f"<topics>{TOPIC.format(1, 'Are zoos cruel?')}{TOPIC.format(2, 'golf')}</topics>"
ARGUMENTS = [
    make_argument("a1"), make_argument("a2", "Golf is a sport"),
    make_argument("a3", "Taxes should rise"), make_argument("a4", "Zoos!"),
    make_argument("a5", "Dogs make good pets"),
]  # fmt: skip

Result = tuple[int, str]  # exit code and output


def write(file: Path, content: str | bytes) -> None:
    """Write bytes, or text in UTF-8, to a file."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_input(directory: Path) -> Path:
    """Write a valid input."""
    directory.mkdir(parents=True)
    (directory / "topics.xml").write_text(TOPICS)
    (directory / "args-me.json").write_text(json.dumps({"arguments": ARGUMENTS}))
    return directory


def link_to_zero(file: Path) -> None:
    """Replace a file with a link to /dev/zero."""
    file.unlink()
    file.symlink_to("/dev/zero")


class Program:
    """Command line with captured output and directories for input, output, cache and checkpoints."""

    def __init__(
        self, folder: Path, checkpoints: Path, capture: pytest.CaptureFixture[str], handler: LogCaptureHandler
    ) -> None:
        self.input, self.output, self.work = folder / "input", folder / "out", folder / "work"
        self.checkpoints, self._capture, self._handler = checkpoints, capture, handler

    def rank(self, *flags: str, systems: tuple[str, ...] = ("bm25",)) -> Result:
        """Run the `rank` command, check that all runs are valid, and return exit code and output."""
        paths = ["-i", str(self.input), "-o", str(self.output), "--checkpoints", str(self.checkpoints), "--device", "cpu"]
        result = self.call("rank", *paths, *(flag for name in systems for flag in ("--system", name)), *flags)
        if result[0] in (0, 6):
            for run in [*(self.output / f"aragorn-{name}.txt" for name in systems), *self.output.glob("run.txt")]:
                if result[0] == 0 or run.exists():
                    assert not CONTROL.search(run.read_bytes().decode())
                    issues = find_run_issues(run, None, None)
                    assert all(issue.category in TOO_SMALL for issue in issues), run.read_text()
            assert not list(self.output.glob(f".*{os.getpid()}*.part"))
        return result

    def check(self, *flags: str) -> Result:
        """Run the `check` command and return exit code and output."""
        return self.call("check", "-i", str(self.input), "--checkpoints", str(self.checkpoints), *flags)

    def call(self, *arguments: str) -> Result:
        """Run a command; check that its exit code is documented and, unless it is 0, that there is an error message."""
        self.clear_output()
        try:
            code = main(list(arguments))
        except SystemExit as error:  # from argparse
            code = int(str(error.code))
        out, err = self._capture.readouterr()
        output = f"{self._handler.stream.getvalue()}\n{out}\n{err}"
        assert code in EXIT_CODES, output
        assert "Traceback" not in output, output
        if code:
            errors = [line for line in err.splitlines() if line.startswith(("error: ", "submission", "usage: "))]
            assert errors, output
            assert max(map(len, err.splitlines())) < 4000, err[:500]
        return code, output

    def clear_output(self) -> None:
        """Discard captured output."""
        self._handler.reset()
        self._capture.readouterr()


def rank_again(program: Program, finished: Path, pattern: str) -> str:
    """Rank again with the cache, check that the runs are unchanged, and return the output.

    Cached rankings are deleted, since other artifacts would not be read, unless `pattern` matches their directory.
    """
    shutil.rmtree(program.output)
    for ranking in program.work.glob("ranking-*"):
        if not ranking.match(pattern.partition("/")[0]):
            shutil.rmtree(ranking)
    code, output = program.rank("--cache-dir", str(program.work), systems=FINISHED)
    assert code == 0, output
    for name in FINISHED:
        run = f"aragorn-{name}.txt"
        assert (program.output / run).read_bytes() == (finished / "out" / run).read_bytes(), output
    return output


Damage = Callable[[Program], object]
