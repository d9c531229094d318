"""Validate an input, checkpoints and run files, and report the errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aragorn.errors import (
    CheckFailedError,
    CheckpointError,
    InputError,
    InsufficientMemoryError,
    abbreviate_list,
    format_message,
    pluralise,
)
from aragorn.io.collection import find_mismatched_ids, select_collection, validate_collection
from aragorn.io.dataset import Dataset
from aragorn.io.run_rules import STRICTER, TIRA_ERROR, find_run_issues, summarise_issues
from aragorn.pipeline.retrieval import iter_components
from aragorn.pipeline.session import CheckpointStore
from aragorn.progress import track
from aragorn.storage.atomic_files import write_atomic
from aragorn.storage.recorded_files import is_edited
from aragorn.systems.catalogue import SYSTEMS, list_incomplete
from aragorn.verbs import CheckOptions

if TYPE_CHECKING:
    import pandas as pd

MISMATCHED_IDS_START = "# ids whose text is not that of args.me 2020-04-01"  # in their file

MAX_ISSUES_SHOWN = 20  # per check; further errors are only counted


@dataclass
class Report:
    """Result of the `check` command, to which each check adds its lines and errors."""

    lines: list[str] = field(default_factory=list)
    exit_code: int = 0  # of the first check with errors; 0 without errors
    n_errors: int = 0

    def add_note(self, note: str) -> None:
        self.lines.append(f"NOTE   {note}")

    def add_result(
        self, label: str, issues: list[str], exit_code: int, count: int | None = None
    ) -> None:
        """Add a line per issue of a check, at most MAX_ISSUES_SHOWN, or an OK line with `label`.

        `exit_code` counts if no earlier check has issues; `count` is the number of errors, if it
        differs from that of issues.
        """
        if not issues:
            self.lines.append(f"OK     {label}")
            return
        self.lines += [f"ERROR  {issue}" for issue in issues[:MAX_ISSUES_SHOWN]]
        if len(issues) > MAX_ISSUES_SHOWN:
            self.lines.append(f"ERROR  … and {len(issues) - MAX_ISSUES_SHOWN} more")
        self.exit_code = self.exit_code or exit_code
        self.n_errors += len(issues) if count is None else count


def check(options: CheckOptions) -> None:
    """Validate an input, all available checkpoints and runs for this input; print a report.

    Raises CheckFailedError, with the exit code of the first failed check.
    """
    report = Report()
    qids, documents = _check_input(options.inputs, options.mismatched_ids, report)
    if not options.no_checkpoints:
        try:
            _check_checkpoints(CheckpointStore(options.checkpoint_dir), report)
        except CheckpointError as error:  # in a missing or unreadable directory
            report.add_result("", [str(error)], error.exit_code)
    docnos = None if documents is None else set(documents["docno"])
    error_levels = {TIRA_ERROR} if options.tira_only else {TIRA_ERROR, STRICTER}
    for run in options.runs:
        issues = find_run_issues(run, qids, docnos)
        errors = [issue for issue in issues if issue.level in error_levels]
        accepted = [issue for issue in issues if issue.level not in error_levels]
        for note in summarise_issues(run, accepted):
            report.add_note(note)
        if is_edited(run):
            report.add_note(
                f"{run}: edited since `rank` wrote it (checksum differs from that in "
                "fingerprint.json)"
            )
        if errors:
            n_tira_errors = sum(issue.level == TIRA_ERROR for issue in errors)
            counts = pluralise(n_tira_errors, "TIRA error")
            if not options.tira_only:
                counts += f", {pluralise(len(errors) - n_tira_errors, 'error')} of stricter checks"
            report.add_note(f"{run}: {counts}, by category:")
        report.add_result(
            str(run), summarise_issues(run, errors), InputError.exit_code, len(errors)
        )
    print("\n".join(map(format_message, report.lines)))
    if report.n_errors:
        # a line may summarise several errors
        n_lines = sum(line.startswith("ERROR") for line in report.lines)
        errors_text = pluralise(report.n_errors, "error")
        lines = pluralise(n_lines, "ERROR line")
        raise CheckFailedError(f"{errors_text}; see {lines} above", report.exit_code)


def _check_input(
    inputs: Sequence[Path], ids_file: Path | None, report: Report
) -> tuple[list[str] | None, pd.DataFrame | None]:
    """Check an input; return topic ids and documents, each None if invalid."""
    try:
        dataset = Dataset(*inputs)
    except InputError as error:
        report.add_result("input", [str(error)], InputError.exit_code)
        return None, None
    report.add_note(dataset.description)
    topics, errors = _read(dataset.read_topics, dataset.read_topic_file, dataset.topic_files)
    label = "" if topics is None else pluralise(len(topics), "topic")
    report.add_result(label, errors, InputError.exit_code)
    documents, errors = _read(
        lambda: dataset.documents, dataset.read_corpus_file, dataset.corpus_files
    )
    label = ""
    if documents is not None:
        if not dataset.ranking_file:
            errors = _check_collection(documents, dataset.min_premise_words, report)
        files = pluralise(len(dataset.corpus_files), "file")
        label = f"{pluralise(len(documents), 'document')} in {files}"
    report.add_result(label, errors, InputError.exit_code)
    if documents is None or errors:
        return None if topics is None else topics["qid"].tolist(), None
    docnos = set(documents["docno"])
    if dataset.ranking_file and topics is not None:
        errors = _catch(lambda: dataset.get_input_run(lambda ids: set(ids) - docnos))
        report.add_result("input run", errors, InputError.exit_code)
    if not dataset.is_tirex:
        _check_args_me_ids(documents, ids_file, report)
    return None if topics is None else topics["qid"].tolist(), documents


def _read(
    read_all: Callable[[], pd.DataFrame],
    read_file: Callable[[Path], Iterable[object]],
    files: Sequence[Path],
) -> tuple[pd.DataFrame | None, list[str]]:
    """Return all records, or None and the first error of each file, or the error across files."""
    try:
        return read_all(), []
    except InputError as error:
        errors = []
        for file in files:
            errors += _catch(partial(deque, read_file(file), 0))
        return None, errors or [str(error)]


def _check_collection(documents: pd.DataFrame, min_words: int, report: Report) -> list[str]:
    """Return the issues of the collection; if there are none, report its size."""
    collection = select_collection(documents, min_words)
    issues = _catch(lambda: validate_collection(collection, len(documents), min_words))
    if min_words and not issues:
        summary = f"{len(collection)} of {len(documents)} arguments in the collection"
        rule = f"; the others have premises of fewer than {min_words} words"
        report.add_note(summary + (rule if len(collection) < len(documents) else ""))
    elif not issues:
        n_empty = sum(not premise.strip() for premise in documents["premise"])
        report.add_note(
            f"all {len(documents)} documents in the collection, {n_empty} of them empty"
        )
    return issues


def _catch(validate: Callable[[], object]) -> list[str]:
    """Call `validate`; return the message of the InputError that it raises as a list, or []."""
    try:
        validate()
    except InputError as error:
        return [str(error)]
    return []


def _check_args_me_ids(documents: pd.DataFrame, file: Path | None, report: Report) -> None:
    """Report documents whose text differs from args.me 2020-04-01, with their ids to `file`."""
    docnos, n_hashed = find_mismatched_ids(documents)
    if not n_hashed:
        report.add_note("no ids of args.me 2020-04-01; qrels for that version do not apply")
    elif len(docnos):
        summary = (
            f"{len(docnos)} of {n_hashed} documents differ from args.me 2020-04-01 "
            "(id does not match text)"
        )
        report.add_note(
            f"{summary}; their judgments refer to other texts: {abbreviate_list(docnos.tolist())}"
        )
    else:
        report.add_result(f"{n_hashed} document texts match their ids", [], 0)
    if file is not None:
        content = "".join(f"{docno}\n" for docno in docnos)
        write_atomic(file, f"{MISMATCHED_IDS_START}\n{content}", MISMATCHED_IDS_START.encode())


def _check_checkpoints(checkpoints: CheckpointStore, report: Report) -> None:
    """Report whether each checkpoint loads; raise CheckpointError if there is none."""
    stages = [stage for system in SYSTEMS.values() for stage in iter_components(system.stage)]
    stage_by_name = {
        name: stage for stage in stages if (name := stage.checkpoint) and checkpoints.has(name)
    }
    if not stage_by_name:
        raise CheckpointError(
            f"{checkpoints.directory}: no checkpoint found; pass a directory of checkpoints"
        )
    for name, stage in track(list(stage_by_name.items()), "checkpoints", "checkpoints"):
        try:
            checkpoint = stage.load_checkpoint(checkpoints)
        except (CheckpointError, InsufficientMemoryError) as error:
            report.add_result("", [f"checkpoint {name}: {error}"], error.exit_code)
        else:
            report.add_result(
                f"checkpoint {name}{f' {checkpoint.fingerprint[:12]}' if checkpoint else ''}", [], 0
            )
    if omitted_names := list_incomplete(checkpoints):
        report.add_note(
            f"systems without all checkpoints, which `rank` omits: {', '.join(omitted_names)}"
        )
