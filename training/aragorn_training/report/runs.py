"""Find and read the runs of a report."""

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

import pandas as pd

from aragorn.errors import InputError, UsageError, abbreviate, abbreviate_list, suggest
from aragorn.io import Order
from aragorn.io.files import read_text
from aragorn.io.runs import RUN_FILES, read_run
from aragorn_training.evaluation.overlap import restrict_run
from aragorn_training.evaluation.similarity import list_runs, split_name


def find_runs(directories: Iterable[Path]) -> list[Path]:
    """Return the runs <team>-<system>.txt of directories, InputError if one has none."""
    files = []
    for directory in directories:
        runs = list_runs(directory)
        if not runs:
            names = [file.name for file in [*directory.glob("*.txt"), *directory.glob("*.txt.gz")]]
            reason = "no runs named <team>-<system>.txt"
            fix = "pass a directory that `rank` wrote"
            if names:
                reason += f", but {abbreviate_list(sorted(names))}"
                fix += f", or rename each run, e.g. to TEAM-{min(names)}"
            raise InputError(directory, "", reason, fix)
        files += runs
    return files


def find_baseline(files: Sequence[Path], baseline: str | None) -> Path:
    """Return the run of the baseline, a system or <team>-<system>; None: the run that equals
    run.txt in its directory, or InputError. Raises UsageError if there is no run of the
    baseline."""
    if baseline is None:
        return _find_primary(files)
    for file in files:
        team, system = split_name(file)
        if baseline in (system, f"{team}-{system}"):
            return file
    hint = suggest(baseline, [split_name(file)[1] for file in files])
    raise UsageError(f"unknown baseline '{abbreviate(baseline)}'; {hint}")


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
