"""Everything that is wrong with an input, the checkpoints and run files, at once; nothing is scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from submission.disk.files import write_whole
from submission.errors import CheckpointError, FaultsError, InputError, counted
from submission.input.args_me import ArgsMe
from submission.input.argument_ids import differing
from submission.input.collection import empty, long_enough, refuse_empty
from submission.input.directory import Input
from submission.output.faults import TIRA, by_kind, run_faults
from submission.progress import progress
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import walk
from submission.systems.remembered import Checkpoints

FAULTS_SHOWN = 20  # faults of a file; the others are counted


@dataclass
class Report:
    """Lines for people, and how many faults of which exit code they tell of."""

    lines: list[str] = field(default_factory=list)
    exit_code: int = 0
    number: int = 0

    def ok(self, what: str) -> None:
        """Something that is as it should be."""
        self.lines.append(f"ok     {what}")

    def note(self, what: str) -> None:
        """Something that may well be meant."""
        self.lines.append(f"note   {what}")

    def refuse_faults(self) -> None:
        """Raises FaultsError: something is wrong; its exit code is that of the first kind of fault."""
        if self.number:
            raise FaultsError(f"{counted(self.number, 'fault')}, listed above", self.exit_code)

    def faults(self, found: list[str], exit_code: int, number: int | None = None) -> None:
        """What is wrong; of many faults the first ones. `number`: of what these lines tell, where a line tells of several."""
        self.lines += [f"FAULT  {fault}" for fault in found[:FAULTS_SHOWN]]
        if len(found) > FAULTS_SHOWN:
            self.lines.append(f"FAULT  … and {len(found) - FAULTS_SHOWN} more of this kind")
        if found:
            self.exit_code = self.exit_code or exit_code
            self.number += len(found) if number is None else number


def check(directory: Path, runs: list[Path], checkpoints: Path, differing_file: Path | None) -> Report:
    """List the faults of an input directory, of all checkpoints present and of run files.

    Args:
        directory: the input.
        runs: run files made from it.
        checkpoints: where the checkpoints are.
        differing_file: gets the ids whose text is not the judged one, one a line.

    Raises:
        OutputError: differing_file cannot be written.
    """
    report = Report()
    topics, documents = _check_input(directory, differing_file, report)
    _check_checkpoints(Checkpoints(checkpoints), report)
    docnos = None if documents is None else set(documents["docno"])
    for run in runs:
        _check_run(run, topics, docnos, report)
    return report


def _check_run(run: Path, topics: list[str] | None, docnos: set[str] | None, report: Report) -> None:
    faults = run_faults(run, topics, docnos)
    if faults:
        refused = sum(fault.level == TIRA for fault in faults)
        ours = len(faults) - refused
        report.note(f"{run}: {counted(refused, 'fault')} that TIRA refuses, {ours:,} where we are stricter; by kind:")
        report.faults(by_kind(run, faults), InputError.exit_code, number=len(faults))
    else:
        report.ok(f"{run}")


def _check_input(directory: Path, differing_file: Path | None, report: Report) -> tuple[list[str] | None, pd.DataFrame | None]:
    """Topics and documents, as far as nothing is wrong with them, by the functions that `rank` reads them with."""
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
        _report(report, "the list", _list_faults(source, documents), InputError.exit_code) if source.list_file else None
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
        words = f"{len(collection)} of {len(documents)} arguments are in the collection"
        report.note(f"{words}, the premises of the others have less than {shortest} words")
    else:
        report.note(f"all {len(documents)} documents are in the collection; {empty(documents)} have no text")
    return []


def _list_faults(source: Input, documents: pd.DataFrame) -> list[str]:
    try:
        source.given(lambda docnos: set(docnos) - set(documents["docno"]))
    except InputError as error:
        return [str(error)]
    return []


def _check_texts(documents: pd.DataFrame, file: Path | None, report: Report) -> None:
    docnos, number = differing(documents)
    if not number:
        report.note("ids are not of args.me 2020-04-01, whose ids prove their texts; qrels of that version do not fit")
    elif len(docnos):
        names = ", ".join(docnos[:5]) + (", …" if len(docnos) > 5 else "")
        report.note(
            f"{len(docnos)} of {number} texts are not those that their ids were made of, so not the judged ones: {names}"
        )
    else:
        report.ok(f"{number} texts are those that their ids were made of")
    if file is not None:
        write_whole(file, "".join(f"{docno}\n" for docno in docnos))


def _check_checkpoints(checkpoints: Checkpoints, report: Report) -> None:
    """Open all that are there, each once."""
    stages = [stage for system in SYSTEMS.values() for stage in walk(system.stage)]
    there = {name: stage for stage in stages if (name := stage.checkpoint) and checkpoints.has(name)}
    for name, stage in progress(list(there.items()), "checkpoints", "checkpoints"):
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
