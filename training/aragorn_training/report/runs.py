"""Find, name and read the runs of a report."""

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

import pandas as pd

from aragorn.errors import InputError, UsageError, abbreviate, abbreviate_list, escape_name, suggest
from aragorn.io.files import read_text
from aragorn.io.orders import Order
from aragorn.io.runs import RUN_FILES, read_run
from aragorn_training.evaluation.overlap import restrict_run

PATTERNS = ("*-*.txt", "*-*.txt.gz")  # of run files


def find_runs(directories: Iterable[Path]) -> list[Path]:
    """Return the runs <team>-<system>.txt, plain or gzipped, of directories; raise InputError if
    one has none."""
    files = []
    for directory in directories:
        runs = sorted(file for pattern in PATTERNS for file in directory.glob(pattern))
        if not runs:
            names = [file.name for pattern in PATTERNS for file in directory.glob(pattern[2:])]
            reason = "no runs named <team>-<system>.txt"
            fix = "pass a directory that `rank` wrote"
            if names:
                reason += f", but {abbreviate_list(sorted(names))}"
                fix += f", or rename each run, e.g. to TEAM-{min(names)}"
            raise InputError(directory, "", reason, fix)
        files += runs
    return files


def name_runs(files: Sequence[Path], baseline: str | None) -> tuple[dict[Path, str], str]:
    """Name the run of each file, and return the name of the baseline, too: its system, or for other
    teams than the baseline's <team>-<system>.

    Args:
        files: Files of `find_runs`.
        baseline: System, or <team>-<system>; None: the run that equals run.txt in its directory.

    Raises:
        InputError: If there is neither a baseline nor a run that equals run.txt.
        UsageError: If there is no run of the baseline.
    """
    stems = {
        file: escape_name(file.name.removesuffix(".gz").removesuffix(".txt")) for file in files
    }
    if baseline is None:
        baseline = stems[_find_primary(files)]
    matches = [stem for stem in stems.values() if baseline in (stem, stem.rpartition("-")[2])]
    if not matches:
        hint = suggest(baseline, [stem.rpartition("-")[2] for stem in stems.values()])
        raise UsageError(f"unknown baseline '{abbreviate(baseline)}'; {hint}")
    team = matches[0].rpartition("-")[0]
    names = {file: stem.removeprefix(f"{team}-") for file, stem in stems.items()}
    return names, matches[0].removeprefix(f"{team}-")


def _find_primary(files: Sequence[Path]) -> Path:
    """Return the first run that equals the run.txt of its directory."""
    for directory in dict.fromkeys(file.parent for file in files):
        for primary in [directory / name for name in RUN_FILES if (directory / name).exists()]:
            content = read_text(primary)
            for file in files:
                if file.parent == directory and read_text(file) == content:
                    return file
    reason = "no run.txt that equals another run"
    raise InputError(files[0].parent, "", reason, "add --baseline SYSTEM")


def read_runs(names: Mapping[Path, str], order: Order, docnos: Set[str]) -> dict[str, pd.DataFrame]:
    """Read runs `qid docno rank score` by name, without documents outside a collection, see
    `restrict_run`; raise InputError if a file is malformed, or two files of one name have a topic in
    common."""
    runs: dict[str, pd.DataFrame] = {}
    for file, name in names.items():
        run = restrict_run(read_run(file, order), docnos, file)
        if name in runs:
            if common := sorted({*runs[name]["qid"]} & {*run["qid"]}):
                reason = f"second run of {name} with topic {abbreviate(common[0])}"
                raise InputError(file, "", reason, "keep one of them")
            run = pd.concat([runs[name], run], ignore_index=True)
        runs[name] = run
    return runs
