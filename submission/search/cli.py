"""Run the verb search: one query, a prompt, or a web page."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from submission.errors import SubmissionError, SystemsFailedError, escape_unprintable
from submission.inference.device import choose_device, choose_precision, limit_threads
from submission.search.corpus import Corpus
from submission.search.results import SearchResults, to_json
from submission.search.searcher import Searcher, SearchOptions
from submission.systems import catalogue
from submission.systems.catalogue import System, get_system
from submission.systems.checkpoint_store import CheckpointStore

DEFAULT_LEXICAL_SYSTEM = "dirichlet"  # best lexical system by nDCG@5 (README, Results)
PROMPT = "query> "


@dataclass(frozen=True)
class SearchArguments:
    """Arguments of search, named like its flags."""

    query: str | None
    input_dir: Path
    systems: list[str]
    depth: int
    explain: bool
    json: bool
    serve: int | None
    cache_dir: Path | None
    device: str
    precision: str
    checkpoint_dir: Path


def run_search(job: SearchArguments) -> None:
    """Print the results of a query or of a prompt's queries, or serve the web page.

    Raises:
        UsageError, InputError, CheckpointError, OutputError: the search failed.
        SystemsFailedError: some systems failed; the results of the others were printed.
    """
    _replace_encoding_errors()
    device = choose_device(job.device)
    checkpoints = CheckpointStore(job.checkpoint_dir, choose_precision(job.precision, device))
    limit_threads()
    systems, message = select_systems(job.systems, checkpoints, device)
    if message:
        print(message, file=sys.stderr)
    with Searcher(Corpus.from_directory(job.input_dir), checkpoints, device, job.cache_dir) as searcher:
        if job.serve is not None:
            from submission.search.server import serve

            serve(searcher, systems, job.depth, job.serve)
        elif job.query is not None:
            _raise_failures(_search_and_print(job, searcher, systems, job.query))
        else:
            for query in _read_queries():
                try:
                    _search_and_print(job, searcher, systems, query)
                except SubmissionError as error:
                    print(f"error: {escape_unprintable(str(error))}", file=sys.stderr, flush=True)


def select_systems(names: Sequence[str], checkpoints: CheckpointStore, device: torch.device) -> tuple[list[System], str]:
    """Return the named systems, or the default system and a message that explains it.

    Raises:
        UsageError: a name is unknown.
    """
    if names:
        return [get_system(name) for name in dict.fromkeys(names)], ""
    primary = get_system(catalogue.PRIMARY_SYSTEM)
    if device.type != "cuda":
        reason = f"{primary.name} takes seconds per query without a GPU"
    elif missing := primary.find_missing_checkpoints(checkpoints):
        reason = f"{primary.name}: checkpoint {', '.join(missing)} not found"
    else:
        return [primary], f"Using {primary.name} (default). Choose another with --system NAME."
    return [
        get_system(DEFAULT_LEXICAL_SYSTEM)
    ], f"Using {DEFAULT_LEXICAL_SYSTEM}, the best lexical system: {reason}. Choose another with --system NAME."


def _search_and_print(job: SearchArguments, searcher: Searcher, systems: Sequence[System], query: str) -> SearchResults:
    results = searcher.search(query, systems, SearchOptions(job.depth, lambda system, docno: job.explain))
    if job.json:
        print(to_json(results), end="", flush=True)
    else:
        from submission.search.terminal import open_console, render

        render(results, searcher.document_count, open_console())
        sys.stdout.flush()
    return results


def _read_queries() -> Iterator[str]:
    """Yield the non-empty lines of the prompt or of stdin."""
    for line in iter(_line_reader(), None):
        if line.strip():
            yield line


def _line_reader() -> Callable[[], str | None]:
    """Return a function that reads the next line, or None at the end of input."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return lambda: sys.stdin.readline() or None
    import readline  # noqa: F401  enables line editing and history

    print("Enter a query; Ctrl-D to quit.", file=sys.stderr)

    def read_line() -> str | None:
        try:
            return input(PROMPT)
        except EOFError:
            print()
            return None

    return read_line


def _raise_failures(results: SearchResults) -> None:
    errors = {listed.system: listed.error for listed in results.systems if listed.error is not None}
    if errors and len(errors) == len(results.systems):
        raise next(iter(errors.values()))
    if errors:
        raise SystemsFailedError(f"failed: {', '.join(errors)}; the results of the other systems are printed above")


def _replace_encoding_errors() -> None:
    """Replace characters that cannot be encoded or decoded."""
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
