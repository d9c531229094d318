"""Everything that is wrong with an input, the checkpoints and run files, at once; nothing is scored."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from submission.argument_ids import differing
from submission.corpus import corpus_faults, corpus_files, long_enough
from submission.disk.files import write_whole
from submission.errors import CheckpointError, FaultsError, InputError
from submission.input.directory import Input
from submission.input.given import given_lists
from submission.runs import TAG
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import walk
from submission.systems.remembered import Checkpoints
from submission.tirex import Tirex
from submission.topics import read_topics, topic_faults, topic_files

SHOWN = 20  # faults of a file; the others are counted
LONGEST, LARGEST, FEWEST_LINES, FEWEST_TOPICS = 1000, 75_000_000, 5, 3  # of a run: what TIRA takes
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")  # positional notation


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
        self.lines += [f"FAULT  {fault}" for fault in found[:SHOWN]]
        if len(found) > SHOWN:
            self.lines.append(f"FAULT  … and {len(found) - SHOWN} more of this kind")
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


def run_faults(file: Path, topics: list[str] | None, corpus: set[str] | None) -> list[str]:
    """All that is wrong with a run file; stricter than TIRA's checker.

    Args:
        file: the run.
        topics: the qids in their order; None: unknown.
        corpus: the docnos; None: unknown.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        size = file.stat().st_size
    except OSError as error:
        return [f"{file}: cannot be read ({error.strerror}); expected a run file"]
    except UnicodeDecodeError as error:
        return [f"{file}, byte {error.start}: not UTF-8"]
    faults = []
    found: dict[str, list[str]] = {}
    last_qid, last_score, tag = "", float("inf"), None
    for number, line in enumerate(lines, 1):
        place, fields = f"{file}, line {number}", line.split(" ")
        if len(fields) != 6 or "" in fields:
            faults.append(f"{place}: {len(line.split())} fields; expected `qid Q0 docno rank score tag`, single blanks between")
            continue
        qid, q0, docno, rank, score, own_tag = fields
        if qid != last_qid:
            if qid in found:
                faults.append(f"{place}: topic {qid} goes on after another one; expected its lines together")
            if topics is not None and qid not in topics:
                faults.append(f"{place}: topic {qid} is not in the input")
            last_qid, last_score = qid, float("inf")
        listed = found.setdefault(qid, [])
        if q0 != "Q0":
            faults.append(f"{place}: {q0!r} in the second field; expected Q0")
        if docno in listed:
            faults.append(f"{place}: document {docno} occurs again in topic {qid}")
        if corpus is not None and docno not in corpus:
            faults.append(f"{place}: document {docno} is not in the input; is it of another corpus version?")
        listed.append(docno)
        if rank != str(len(listed)):
            faults.append(f"{place}: rank {rank}; expected {len(listed)}, ranks rise by one from 1")
        if not NUMBER.fullmatch(score):
            faults.append(f"{place}: score {score}; expected a number in positional notation")
        elif not float(score) < last_score:
            faults.append(f"{place}: score {score} after {last_score}; expected strictly falling scores, without ties")
        last_score = float(score) if NUMBER.fullmatch(score) else last_score
        if own_tag != (tag := tag or own_tag) or not TAG.fullmatch(own_tag):
            faults.append(f"{place}: tag {own_tag!r}; expected one tag in all lines, of letters, digits, - and _")
    faults += [f"{file}: {len(docnos)} documents in topic {qid}; expected at most {LONGEST}"
               for qid, docnos in found.items() if len(docnos) > LONGEST]  # fmt: skip
    if len(lines) < FEWEST_LINES or len(found) < FEWEST_TOPICS:
        least = f"at least {FEWEST_LINES} lines and {FEWEST_TOPICS} topics"
        faults.append(f"{file}: {len(lines)} lines, {len(found)} topics; TIRA expects {least}")
    if size > LARGEST:
        faults.append(f"{file}: {size} bytes; TIRA takes at most {LARGEST}")
    if topics is not None and [qid for qid in topics if qid in found] != [qid for qid in found if qid in topics]:
        faults.append(f"{file}: topics in another order than the input's")
    return faults


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
