"""All that is wrong with a run file; stricter than TIRA's checker."""

from __future__ import annotations

import re
from pathlib import Path

from submission.output.runs import TAG

LONGEST, LARGEST, FEWEST_LINES, FEWEST_TOPICS = 1000, 75_000_000, 5, 3  # of a run: what TIRA takes
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")  # positional notation


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
