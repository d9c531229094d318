"""Everything that is wrong with an input, the checkpoints and run files, at once; nothing is scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from submission.disk.files import write_whole
from submission.errors import CheckpointError, FaultsError, InputError
from submission.input.args_me import corpus_faults, corpus_files
from submission.input.argument_ids import differing
from submission.input.collection import long_enough
from submission.input.directory import Input
from submission.input.given import given_lists
from submission.input.tirex import Tirex
from submission.input.topics import read_topics, topic_faults, topic_files
from submission.output.faults import run_faults
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
            raise FaultsError(f"{self.number} faults, listed above", self.exit_code)

    def faults(self, found: list[str], exit_code: int) -> None:
        """What is wrong; of many faults the first ones."""
        self.lines += [f"FAULT  {fault}" for fault in found[:FAULTS_SHOWN]]
        if len(found) > FAULTS_SHOWN:
            self.lines.append(f"FAULT  … and {len(found) - FAULTS_SHOWN} more of this kind")
        if found:
            self.exit_code = self.exit_code or exit_code
            self.number += len(found)


def check(directory: Path, runs: list[Path], checkpoints: Path, differing_file: Path | None) -> Report:
    """What is wrong with an input directory, with all checkpoints that are there, and with run files.

    Args:
        directory: the input.
        runs: run files made from it.
        checkpoints: where the checkpoints are.
        differing_file: gets the ids whose text is not the judged one, one a line.

    Raises:
        OutputError: differing_file cannot be written.
    """
    report = Report()
    if Tirex.is_in(directory):
        topics, documents = _check_tirex(directory, report)
    else:
        topics, documents = _check_topics(directory, report), _check_documents(directory, report)
        if documents is not None:
            _check_texts(documents, differing_file, report)
    _check_checkpoints(Checkpoints(checkpoints), report)
    docnos = None if documents is None else set(documents["docno"])
    for run in runs:
        _report(report, str(run), run_faults(run, topics, docnos), InputError.exit_code)
    return report


def _check_tirex(directory: Path, report: Report) -> tuple[list[str] | None, pd.DataFrame | None]:
    try:
        source = Input(directory)
        topics, documents = source.topics["qid"].tolist(), source.documents
        if source.listed is not None:
            given_lists(source.listed, source.topics, set(source.listed["docno"]) - set(documents["docno"]), source.list_file)
    except InputError as error:
        report.faults([str(error)], InputError.exit_code)
        return None, None
    report.ok(f"{len(topics)} topics, {len(documents)} documents")
    report.note(source.note)
    return topics, documents


def _check_topics(directory: Path, report: Report) -> list[str] | None:
    try:
        files = topic_files(directory)
    except InputError as error:
        report.faults([str(error)], InputError.exit_code)
        return None
    found = topic_faults(files)
    _report(report, ", ".join(map(str, files)), found, InputError.exit_code)
    return None if found else read_topics(files)["qid"].tolist()


def _check_documents(directory: Path, report: Report) -> pd.DataFrame | None:
    try:
        files = corpus_files(directory)
    except InputError as error:
        report.faults([str(error)], InputError.exit_code)
        return None
    documents, found = corpus_faults(files)
    if not found:
        try:
            collection = long_enough(documents)
        except InputError as error:
            found = [str(error)]
        else:
            words = f"{len(collection)} of {len(documents)} arguments are in the collection"
            report.note(f"{words}, the premises of the others are too short")
    _report(report, f"{len(files)} corpus files", found, InputError.exit_code)
    return documents


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
    stages = dict.fromkeys(stage for system in SYSTEMS.values() for stage in walk(system.stage))
    told = set()
    for stage in stages:
        if stage.checkpoint is None or stage.checkpoint in told or not checkpoints.has(stage.checkpoint):
            continue
        told.add(stage.checkpoint)
        try:
            stage.opened(checkpoints)
        except CheckpointError as error:
            report.faults([f"checkpoint {stage.checkpoint}: {error}"], CheckpointError.exit_code)
        else:
            report.ok(f"checkpoint {stage.checkpoint}")


def _report(report: Report, what: str, found: list[str], exit_code: int) -> None:
    if found:
        report.faults(found, exit_code)
    else:
        report.ok(what)
