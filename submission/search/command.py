"""The command `search`: a question, a prompt, or a page in the browser."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from submission.errors import SubmissionError, SystemsFailedError, shown
from submission.scoring.device import choose_device, choose_precision, limit_threads
from submission.search.answer import Answer
from submission.search.chosen import chosen
from submission.search.corpus import Corpus
from submission.search.machine import dumped
from submission.search.searcher import Searcher, Wish
from submission.search.terminal import written
from submission.systems.catalogue import System
from submission.systems.remembered import Checkpoints

WIDE = 100  # columns of what is no terminal
PROMPT = "? "


@dataclass(frozen=True)
class Job:
    """The flags of `search`, a field of the same name each."""

    question: str | None
    input: Path
    systems: list[str]
    depth: int
    explain: bool
    json: bool
    serve: int | None
    work: Path | None
    device: str
    precision: str
    checkpoints: Path


def search(job: Job) -> None:
    """Answer a question on stdout, those of a prompt one after the other, or in a browser.

    Raises:
        UsageError, InputError, CheckpointError, OutputError: there is no answer.
        SystemsFailedError: some systems failed, the others have answered.
    """
    _never_fail_to_write()
    device = choose_device(job.device)
    checkpoints = Checkpoints(job.checkpoints, choose_precision(job.precision, device))
    limit_threads()
    systems, why = chosen(job.systems, checkpoints, device)
    if why:
        print(why, file=sys.stderr)
    with Searcher(Corpus.of_directory(job.input), checkpoints, device, job.work) as searcher:
        if job.serve is not None:
            from submission.search.server import serve

            serve(searcher, systems, job.depth, job.serve)
        elif job.question is not None:
            _refuse_failures(_answer(job, searcher, systems, job.question))
        else:
            for question in _questions():
                try:
                    _answer(job, searcher, systems, question)
                except SubmissionError as error:
                    print(f"error: {shown(str(error))}", file=sys.stderr, flush=True)


def _answer(job: Job, searcher: Searcher, systems: Sequence[System], question: str) -> Answer:
    answer = searcher.ask(question, systems, Wish(job.depth, lambda system, docno: job.explain))
    columns = shutil.get_terminal_size((WIDE, 0)).columns if sys.stdout.isatty() else WIDE
    text = dumped(answer) if job.json else written(answer, searcher.size, columns, _has_colours())
    print(text, end="", flush=True)
    return answer


def _questions() -> Iterator[str]:
    """The lines that are typed, or come through a pipe; empty ones are none."""
    for line in iter(_reader(), None):
        if line.strip():
            yield line


def _reader() -> Callable[[], str | None]:
    """Return a function that reads the next line; None at the end."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return lambda: sys.stdin.readline() or None
    import readline  # noqa: F401  what is typed can be corrected, and called back

    print("a question and Enter; Ctrl-D ends", file=sys.stderr)

    def typed() -> str | None:
        try:
            return input(PROMPT)
        except EOFError:
            print()
            return None

    return typed


def _refuse_failures(answer: Answer) -> None:
    failed = {listed.system: listed.error for listed in answer.systems if listed.error is not None}
    if failed and len(failed) == len(answer.systems):
        raise next(iter(failed.values()))
    if failed:
        raise SystemsFailedError(f"failed: {', '.join(failed)}; the answers of the others are above")


def _never_fail_to_write() -> None:
    """Neither a terminal of few letters nor bytes that are no text end in a traceback."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
