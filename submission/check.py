"""Validate an input directory, checkpoints and run files, and report all errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from submission.data.args_me import ArgsMe
from submission.data.args_me_ids import differing
from submission.data.collection import empty, long_enough, refuse_empty
from submission.data.dataset import Input
from submission.data.run_validation import TIRA, by_kind, run_faults
from submission.errors import CheckpointError, FaultsError, InputError, counted
from submission.progress import progress
from submission.storage.atomic_files import write_whole
from submission.systems.catalogue import SYSTEMS
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import walk

FAULTS_SHOWN = 20  # per source; further errors are counted


@dataclass
class Report:
    """Report lines, number of errors and exit code."""

    lines: list[str] = field(default_factory=list)
    exit_code: int = 0
    number: int = 0

    def ok(self, what: str) -> None:
        """Add a line for a passed check."""
        self.lines.append(f"OK     {what}")

    def note(self, what: str) -> None:
        """Add a line of information."""
        self.lines.append(f"NOTE   {what}")

    def refuse_faults(self) -> None:
        """Raise FaultsError with the exit code of the first error, if there are errors."""
        if self.number:
            raise FaultsError(f"{counted(self.number, 'error')}, see above", self.exit_code)

    def faults(self, found: list[str], exit_code: int, number: int | None = None) -> None:
        """Add error lines, at most FAULTS_SHOWN.

        Args:
            found: Messages.
            exit_code: Exit code of the errors.
            number: Number of errors, if a line stands for several.
        """
        self.lines += [f"ERROR  {issue}" for issue in found[:FAULTS_SHOWN]]
        if len(found) > FAULTS_SHOWN:
            self.lines.append(f"ERROR  … and {len(found) - FAULTS_SHOWN} more")
        if found:
            self.exit_code = self.exit_code or exit_code
            self.number += len(found) if number is None else number


def check(directory: Path, runs: list[Path], checkpoints: Path, differing_file: Path | None) -> Report:
    """Validate an input directory, all checkpoints present and run files.

    Args:
        directory: Input directory.
        runs: Runs for this input.
        checkpoints: Checkpoint directory.
        differing_file: Output file for the ids of documents that differ from args.me 2020-04-01, one per line.

    Raises:
        OutputError: If differing_file is not writable.
    """
    report = Report()
    topics, documents = _check_input(directory, differing_file, report)
    _check_checkpoints(Checkpoints(checkpoints), report)
    docnos = None if documents is None else set(documents["docno"])
    for run in runs:
        _check_run(run, topics, docnos, report)
    return report


def _check_run(run: Path, topics: list[str] | None, docnos: set[str] | None, report: Report) -> None:
    issues = run_faults(run, topics, docnos)
    if issues:
        tira_count = sum(issue.level == TIRA for issue in issues)
        stricter_count = len(issues) - tira_count
        report.note(f"{run}: {counted(tira_count, 'TIRA error')}, {counted(stricter_count, 'stricter check')}, by kind:")
        report.faults(by_kind(run, issues), InputError.exit_code, number=len(issues))
    else:
        report.ok(f"{run}")


def _check_input(directory: Path, differing_file: Path | None, report: Report) -> tuple[list[str] | None, pd.DataFrame | None]:
    """Return topic ids and documents, each None if it has errors; uses the same readers as `rank`."""
    try:
        source = Input(directory)
    except InputError as error:
        report.faults([str(error)], InputError.exit_code)
        return None, None
    report.note(source.note)
    form = source.form
    topics, faults = form.topics()
    _report(report, f"{len(topics)} topics", faults, InputError.exit_code)
    documents, more = form.documents()
    if not more and not source.list_file:
        more = _collection_faults(documents, form.shortest_premise, report)
    _report(report, f"{len(documents)} documents in {len(form.corpus_files)} files", more, InputError.exit_code)
    if not faults and not more:
        _report(report, "supplied ranking", _list_faults(source, documents), InputError.exit_code) if source.list_file else None
    if not more and isinstance(form, ArgsMe):
        _check_texts(documents, differing_file, report)
    return None if faults else topics["qid"].tolist(), None if more else documents


def _collection_faults(documents: pd.DataFrame, shortest: int, report: Report) -> list[str]:
    collection = long_enough(documents, shortest)
    try:
        refuse_empty(collection, len(documents), shortest)
    except InputError as error:
        return [str(error)]
    if shortest:
        summary = f"{len(collection)} of {len(documents)} arguments in the collection"
        report.note(f"{summary}; the others have premises of fewer than {shortest} words")
    else:
        report.note(f"all {len(documents)} documents in the collection, {empty(documents)} of them empty")
    return []


def _list_faults(source: Input, documents: pd.DataFrame) -> list[str]:
    try:
        source.given(lambda docnos: set(docnos) - set(documents["docno"]))
    except InputError as error:
        return [str(error)]
    return []


def _check_texts(documents: pd.DataFrame, file: Path | None, report: Report) -> None:
    mismatched, hashed_count = differing(documents)
    if not hashed_count:
        report.note("no ids of args.me 2020-04-01; the qrels for that version do not apply")
    elif len(mismatched):
        examples = ", ".join(mismatched[:5]) + (", …" if len(mismatched) > 5 else "")
        report.note(
            f"{len(mismatched)} of {hashed_count} documents differ from args.me 2020-04-01 (id does not match text); their "
            f"judgments refer to other text: {examples}"
        )
    else:
        report.ok(f"{hashed_count} document texts match their ids")
    if file is not None:
        write_whole(file, "".join(f"{docno}\n" for docno in mismatched))


def _check_checkpoints(checkpoints: Checkpoints, report: Report) -> None:
    """Load every checkpoint present, each once."""
    stages = [stage for system in SYSTEMS.values() for stage in walk(system.stage)]
    present = {name: stage for stage in stages if (name := stage.checkpoint) and checkpoints.has(name)}
    for name, stage in progress(list(present.items()), "checkpoints", "checkpoints"):
        try:
            stage.opened(checkpoints)
        except CheckpointError as error:
            report.faults([f"checkpoint {name}: {error}"], CheckpointError.exit_code)
        else:
            report.ok(f"checkpoint {name}")


def _report(report: Report, what: str, found: list[str], exit_code: int) -> None:
    if found:
        report.faults(found, exit_code)
    else:
        report.ok(what)
