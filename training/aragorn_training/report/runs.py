"""Find and read the runs of a report."""

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

import pandas as pd

from aragorn.errors import InputError, UsageError, abbreviate, abbreviate_list, escape_name, suggest
from aragorn.io import Order
from aragorn.io.files import read_text
from aragorn.io.runs import RUN_FILES
from aragorn_training.evaluation.overlap import read_restricted_run
from aragorn_training.evaluation.similarity import list_runs, name_runs, split_name

CANDIDATES = "bm25"  # system whose run the re-rankers re-rank


def find_runs(directories: Iterable[Path]) -> list[Path]:
    """Return the runs <team>-<system>.txt of directories, InputError if one has none."""
    files = []
    for directory in dict.fromkeys(directories):
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
    """Return the run of the baseline, a system or <team>-<system>, also with DIRECTORY/ before it;
    None: the run that equals run.txt in its directory, or InputError. Raises UsageError if there is
    no run of the baseline."""
    if baseline is None:
        return _find_primary(files)
    directories = name_directories(file.parent for file in files)
    for file in files:
        team, system = split_name(file)
        names = (system, f"{team}-{system}")
        if baseline in (*names, *(f"{directories[file.parent]}/{name}" for name in names)):
            return file
    hint = suggest(baseline, {split_name(file)[1] for file in files})
    raise UsageError(f"unknown baseline '{abbreviate(baseline)}'; {hint}")


def find_candidates(names: Mapping[Path, str], baseline_file: Path) -> str | None:
    """Return the name of the run of CANDIDATES in the baseline's directory; None without one."""
    runs = {
        split_name(file)[1]: name
        for file, name in names.items()
        if file.parent == baseline_file.parent
    }
    return runs.get(CANDIDATES)


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


def name_directories(directories: Iterable[Path]) -> dict[Path, str]:
    """Name directories by the ends of their paths that distinguish them."""
    paths = {directory: Path(os.path.realpath(directory)) for directory in directories}
    common = Path(os.path.commonpath(paths.values()))
    parent = common.parent if common in paths.values() else common
    return {
        directory: escape_name(str(path.relative_to(parent))) for directory, path in paths.items()
    }


def read_runs(files: Iterable[Path], order: Order, docnos: Set[str]) -> dict[Path, pd.DataFrame]:
    """Read runs `qid docno rank score`, without documents outside a collection, see
    `restrict_run`; raise InputError if a file is malformed."""
    return {file: read_restricted_run(file, order, docnos) for file in files}


def name_systems(runs: Mapping[Path, pd.DataFrame]) -> dict[Path, str]:
    """Name the systems of runs as `name_runs`, after their directory if two directories rank a
    topic by the same system; otherwise, runs of one name are those of a system for several
    years. Raises InputError if a directory has two runs of a system for a topic."""
    names = name_runs([*runs])
    if not _find_repetition(runs, names):
        return names
    directories = name_directories(file.parent for file in runs)
    names = {file: f"{directories[file.parent]}/{name}" for file, name in names.items()}
    if file := _find_repetition(runs, names):
        raise InputError(file, "", f"second run of {names[file]}", "keep one of them")
    return names


def _find_repetition(runs: Mapping[Path, pd.DataFrame], names: Mapping[Path, str]) -> Path | None:
    """Return the first run with a topic of an earlier run of the same name."""
    topics: dict[str, set[str]] = {}
    for file, run in runs.items():
        earlier = topics.setdefault(names[file], set())
        if earlier & {*run["qid"]}:
            return file
        earlier.update(run["qid"])
    return None


def merge_runs(
    runs: Mapping[Path, pd.DataFrame], names: Mapping[Path, str]
) -> dict[str, pd.DataFrame]:
    """Merge the runs of each name."""
    groups: dict[str, list[pd.DataFrame]] = {}
    for file, run in runs.items():
        groups.setdefault(names[file], []).append(run)
    return {name: pd.concat(group, ignore_index=True) for name, group in groups.items()}
