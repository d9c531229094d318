"""Topics XML → frame `qid query`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from lxml import etree

from submission.errors import InputError, short
from submission.input.files import content, named, unfit


def topic_files(directory: Path) -> list[Path]:
    """The topics files of an input directory, sorted. Raises InputError: there is none."""
    files = named(directory, "topics*.xml")
    if not files:
        raise InputError(f"{directory}: no topics found; expected a file named topics*.xml there")
    return files


def read_topics(files: list[Path]) -> tuple[pd.DataFrame, list[str]]:
    """Read topics: one row a topic, `qid` (str) and `query` (the title), numbers ascending; and all that is wrong with them.

    Malformed XML, a document type declaration, a topic without number or title, a number that no run can hold or that occurs
    twice.
    """
    rows, faults = _read(files)
    return in_order(pd.DataFrame({"qid": rows.keys(), "query": rows.values()}, dtype=object)), faults


def qid_expected(qid: str) -> str:
    """Describe what a topic's id must be to stand in a run; "" where it can."""
    if unfit(qid):
        return "expected one without blanks and control characters"
    if qid.startswith("#"):
        return "expected one that does not begin with #: a run's line that does is a comment; rename the topic"
    return ""


def in_order(topics: pd.DataFrame) -> pd.DataFrame:
    """Topics `qid query` with numbers ascending, then the other ids by their letters."""
    order = sorted(topics.index, key=lambda row: _position(topics["qid"][row]))
    return topics.loc[order].reset_index(drop=True)


def _position(qid: str) -> tuple[int, int, str]:
    return (0, len(qid), qid) if qid.isdecimal() else (1, 0, qid)


def _read(files: list[Path]) -> tuple[dict[str, str], list[str]]:
    """Titles by number, and what is wrong."""
    rows: dict[str, str] = {}
    seen: dict[str, str] = {}
    faults = []
    for file in files:
        try:
            topics = list(_parse(file).iter("topic"))
        except InputError as error:
            faults.append(str(error))
            continue
        for topic in topics:
            place = f"{file}, line {topic.sourceline}"
            qid, title = _text(topic, "number") or _text(topic, "num"), _text(topic, "title")
            if not qid:
                faults.append(f"{place}: a topic without a number; expected <number>1</number> (or <num>)")
            elif expected := qid_expected(qid):
                faults.append(f"{place}: number '{short(qid)}'; {expected}")
            elif not title:
                faults.append(f"{place}: topic {short(qid)} has no title; expected a question in <title>…</title>")
            elif qid in rows:
                again = f"topic {short(qid)} occurs again, first at {seen[qid]}"
                faults.append(f"{place}: {again}; numbers must be unique, remove one")
            else:
                rows[qid], seen[qid] = title, place
    if not rows and not faults:
        names = ", ".join(map(str, files))
        faults.append(f"{names}: no <topic> element found; expected <topics><topic>…</topic></topics>")
    return rows, faults


def _parse(file: Path) -> etree._Element:
    # Nothing outside the file is ever loaded, and no entity is expanded: a topics file has no use for either.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        tree = etree.ElementTree(etree.fromstring(bytes(content(file)), parser))
    except etree.XMLSyntaxError as error:
        raise InputError(f"{file}, line {error.lineno}: malformed XML ({error.msg}); expected well-formed UTF-8 XML") from None
    if tree.docinfo.internalDTD is not None or tree.docinfo.externalDTD is not None:
        raise InputError(f"{file}: has a document type declaration, which can pull in entities; remove the <!DOCTYPE …> part")
    return tree.getroot()


def _text(topic: etree._Element, tag: str) -> str:
    element = topic.find(tag)
    return "" if element is None else " ".join(str(element.xpath("string()")).split())
