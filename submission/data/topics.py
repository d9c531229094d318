"""Read topics from XML as `qid query`."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from lxml import etree

from submission.data.input_files import ID_RULE, collect, find_files, is_invalid_id, read_bytes, yield_input_errors
from submission.errors import InputError, abbreviate


def find_topic_files(directory: Path) -> list[Path]:
    """Return the sorted topics*.xml files of a directory; raise InputError if there are none."""
    files = find_files(directory, "topics*.xml")
    if not files:
        raise InputError(f"{directory}: no topics found; expected a file named topics*.xml")
    return files


def read_topics(files: list[Path]) -> tuple[pd.DataFrame, list[str]]:
    """Read topics `qid query` in ascending order of number, with titles as queries; return them and all issues."""
    titles: dict[str, str] = {}
    locations: dict[str, str] = {}
    issues = []
    for file in files:
        topics, file_issues = collect(_iter_topics(file))
        issues += file_issues
        for location, qid, title in topics:
            if qid in titles:
                issues.append(f"{location}: duplicate topic {abbreviate(qid)} (first at {locations[qid]}); remove one")
            else:
                titles[qid], locations[qid] = title, location
    if not titles and not issues:
        names = ", ".join(map(str, files))
        issues.append(f"{names}: no <topic> element found; expected <topics><topic>…</topic></topics>")
    return sort_topics(pd.DataFrame({"qid": titles.keys(), "query": titles.values()}, dtype=object)), issues


def describe_invalid_qid(qid: str) -> str:
    """Return why a topic id is invalid in runs; "" if it is valid."""
    if is_invalid_id(qid):
        return ID_RULE
    if qid.startswith("#"):
        return "ids must not start with # (a comment in run files); rename the topic"
    return ""


def sort_topics(topics: pd.DataFrame) -> pd.DataFrame:
    """Sort topics: numeric ids in numeric order, then all others alphabetically."""

    def sort_key(row: int) -> tuple[int, int, str]:
        qid = topics["qid"][row]
        return (0, len(qid), qid) if qid.isdecimal() else (1, 0, qid)

    return topics.loc[sorted(topics.index, key=sort_key)].reset_index(drop=True)


@yield_input_errors
def _iter_topics(file: Path) -> Iterator[tuple[str, str, str] | InputError]:
    """Yield location, id and title of each topic, or an InputError for an invalid topic."""
    for topic in _parse_xml(file).iter("topic"):
        location = f"{file}, line {topic.sourceline}"
        qid, title = _get_child_text(topic, "number") or _get_child_text(topic, "num"), _get_child_text(topic, "title")
        if not qid:
            yield InputError(f"{location}: topic without number; expected <number> or <num>")
        elif reason := describe_invalid_qid(qid):
            yield InputError(f"{location}: invalid number '{abbreviate(qid)}'; {reason}")
        elif not title:
            yield InputError(f"{location}: topic {abbreviate(qid)} has no title; expected <title>")
        else:
            yield location, qid, title


def _parse_xml(file: Path) -> etree._Element:
    # For security, neither load external resources nor expand entities.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        tree = etree.ElementTree(etree.fromstring(bytes(read_bytes(file)), parser))
    except etree.XMLSyntaxError as error:
        raise InputError(f"{file}, line {error.lineno}: malformed XML ({error.msg}); expected well-formed UTF-8 XML") from None
    if tree.docinfo.internalDTD is not None or tree.docinfo.externalDTD is not None:
        raise InputError(f"{file}: document type declaration not allowed; remove <!DOCTYPE …>")
    return tree.getroot()


def _get_child_text(topic: etree._Element, tag: str) -> str:
    element = topic.find(tag)
    return "" if element is None else " ".join(str(element.xpath("string()")).split())
