"""All that is wrong with a run file; stricter than TIRA's checker."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from submission.disk.files import read_regular
from submission.lists import DEEPEST
from submission.output.runs import TAG

LARGEST, FEWEST_LINES, FEWEST_TOPICS = 75_000_000, 5, 3  # of a run that TIRA takes: bytes, lines, topics
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")  # positional notation


@dataclass(frozen=True)
class _Line:
    number: int  # in the file, from 1
    qid: str
    q0: str
    docno: str
    rank: str
    score: str
    tag: str


Found = Iterator[tuple[int, str]]  # the number of a line, and what is wrong there


def run_faults(file: Path, topics: Sequence[str] | None, docnos: Collection[str] | None) -> list[str]:
    """All that is wrong with a run file, in the order of its lines.

    Args:
        file: the run.
        topics: the qids of the input in their order; None: unknown.
        docnos: of all documents of the input; None: unknown.
    """
    try:
        content = read_regular(file)
        texts, size = content.decode().splitlines(), len(content)
    except OSError as error:
        return [f"{file}: cannot be read ({error.strerror}); expected a run file"]
    except UnicodeDecodeError as error:
        return [f"{file}, byte {error.start}: not UTF-8"]
    lines = [_Line(number, *text.split(" ")) for number, text in enumerate(texts, 1) if _has_six_fields(text)]
    found = [
        *_fields(texts),
        *_topics(lines, topics),
        *_documents(lines, docnos),
        *_ranks(lines),
        *_scores(lines),
        *_tags(lines),
    ]
    return [
        *(f"{file}, line {number}: {fault}" for number, fault in sorted(found, key=lambda pair: pair[0])),
        *(f"{file}: {fault}" for fault in _as_a_whole(lines, len(texts), size, topics)),
    ]


def _has_six_fields(text: str) -> bool:
    fields = text.split(" ")
    return len(fields) == 6 and "" not in fields


def _fields(texts: Sequence[str]) -> Found:
    for number, text in enumerate(texts, 1):
        if not _has_six_fields(text):
            yield number, f"{len(text.split())} fields; expected `qid Q0 docno rank score tag`, single blanks between"


def _topics(lines: Sequence[_Line], topics: Sequence[str] | None) -> Found:
    seen = set()
    for qid, group in groupby(lines, key=lambda line: line.qid):
        number = next(group).number
        if qid in seen:
            yield number, f"topic {qid} goes on after another one; expected its lines together"
        if topics is not None and qid not in topics:
            yield number, f"topic {qid} is not in the input"
        seen.add(qid)


def _documents(lines: Sequence[_Line], docnos: Collection[str] | None) -> Found:
    seen = set()
    for line in lines:
        if (line.qid, line.docno) in seen:
            yield line.number, f"document {line.docno} occurs again in topic {line.qid}"
        if docnos is not None and line.docno not in docnos:
            yield line.number, f"document {line.docno} is not in the input; is it of another corpus version?"
        seen.add((line.qid, line.docno))


def _ranks(lines: Sequence[_Line]) -> Found:
    listed: Counter[str] = Counter()
    for line in lines:
        listed[line.qid] += 1
        if line.rank != str(listed[line.qid]):
            yield line.number, f"rank {line.rank}; expected {listed[line.qid]}, ranks rise by one from 1"


def _scores(lines: Sequence[_Line]) -> Found:
    for _, group in groupby(lines, key=lambda line: line.qid):
        last = float("inf")
        for line in group:
            if not NUMBER.fullmatch(line.score):
                yield line.number, f"score {line.score}; expected a number in positional notation"
                continue
            if not float(line.score) < last:
                yield line.number, f"score {line.score} after {last}; expected strictly falling scores, without ties"
            last = float(line.score)


def _tags(lines: Sequence[_Line]) -> Found:
    for line in lines:
        if line.q0 != "Q0":
            yield line.number, f"{line.q0!r} in the second field; expected Q0"
        if line.tag != lines[0].tag or not TAG.fullmatch(line.tag):
            yield line.number, f"tag {line.tag!r}; expected one tag in all lines, of letters, digits, - and _"


def _as_a_whole(lines: Sequence[_Line], number: int, size: int, topics: Sequence[str] | None) -> Iterator[str]:
    listed = Counter(line.qid for line in lines)
    for qid, length in listed.items():
        if length > DEEPEST:
            yield f"{length} documents in topic {qid}; expected at most {DEEPEST}"
    if number < FEWEST_LINES or len(listed) < FEWEST_TOPICS:
        yield f"{number} lines, {len(listed)} topics; TIRA expects at least {FEWEST_LINES} lines and {FEWEST_TOPICS} topics"
    if size > LARGEST:
        yield f"{size} bytes; TIRA takes at most {LARGEST}"
    if topics is not None and [qid for qid in topics if qid in listed] != [qid for qid in listed if qid in topics]:
        yield "topics in another order than the input's"
