"""Read topics from XML as `qid query`."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from lxml import etree

from aragorn.errors import InputError, abbreviate, abbreviate_list, describe_subdirectories
from aragorn.io import input_files
from aragorn.io.input_files import (
    ID_RULE,
    collect,
    find_files,
    is_invalid_id,
    read_bytes,
    yield_input_errors,
)

EXPECTED = (
    "expected <topics><topic>…</topic></topics> in well-formed UTF-8 XML; convert other formats"
)
TOPIC_FILES = "topics*.xml"


def find_topic_files(*paths: Path) -> list[Path]:
    """Return the topics*.xml files of an input, plain or gzipped, sorted by name; raise InputError
    if there are none."""
    files = find_files(paths, TOPIC_FILES)
    if not files:
        raise InputError(
            f"{input_files.describe_missing(paths, 'topics')}; expected a file named {TOPIC_FILES} (optionally .gz)"
            f"{describe_subdirectories(paths)}"
        )
    return files


def read_topics(files: list[Path]) -> tuple[pd.DataFrame, list[str]]:
    """Read topics `qid query` in ascending order of number, with titles as queries; return them and
    all issues."""
    titles: dict[str, str] = {}
    locations: dict[str, str] = {}
    issues = []
    for file in files:
        topics, file_issues = collect(_iter_topics(file))
        issues += file_issues
        for location, qid, title in topics:
            if qid in titles:
                issues.append(
                    f"{location}: duplicate topic {abbreviate(qid)} (first at {locations[qid]}); remove one"
                )
            else:
                titles[qid], locations[qid] = title, location
    return sort_topics(
        pd.DataFrame({"qid": titles.keys(), "query": titles.values()}, dtype=object)
    ), issues


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
    root = _parse_xml(file)
    topics = [*root.iter("{*}topic")]
    if not topics:
        names = [
            *dict.fromkeys(f"<{etree.QName(element).localname}>" for element in root.iter("*"))
        ]
        yield InputError(f"{file}: no <topic> element, but {abbreviate_list(names)}; {EXPECTED}")
    for topic in topics:
        location = f"{file}, line {topic.sourceline}"
        qids, titles = (
            _read_values(topic, "number", "num"),
            _read_values(topic, "title") or _read_values(topic, "query"),
        )
        if not qids:
            yield InputError(
                f"{location}: topic without number; expected number or num, as element or attribute"
            )
        elif len(qids) > 1:
            yield InputError(
                f"{location}: topic with several numbers ({abbreviate_list(qids)}); keep one"
            )
        elif reason := describe_invalid_qid(qids[0]):
            yield InputError(f"{location}: invalid number '{abbreviate(qids[0])}'; {reason}")
        elif len(titles) != 1:
            problem = (
                f"several titles ({abbreviate_list(titles)}); keep one"
                if titles
                else "no title; expected <title>"
            )
            yield InputError(f"{location}: topic {abbreviate(qids[0])} has {problem}")
        else:
            yield location, qids[0], titles[0]


def _parse_xml(file: Path) -> etree._Element:
    # For security, neither load external resources nor expand entities.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        tree = etree.ElementTree(etree.fromstring(bytes(read_bytes(file)), parser))
    except etree.XMLSyntaxError as error:
        has_second_root = "Extra content" in str(error)
        fix = "put all topics into one <topics> element" if has_second_root else EXPECTED
        raise InputError(
            f"{file}, line {error.lineno}: malformed XML ({error.msg}); {fix}"
        ) from None
    if tree.docinfo.internalDTD is not None or tree.docinfo.externalDTD is not None:
        raise InputError(f"{file}: document type declaration not allowed; remove <!DOCTYPE …>")
    return tree.getroot()


def _read_values(topic: etree._Element, *names: str) -> list[str]:
    """Return the distinct non-empty values of attributes and children with these names, in any
    namespace."""
    texts = [str(text) for name, text in topic.items() if etree.QName(name).localname in names]
    texts += [
        str(child.xpath("string()"))
        for name in names
        for child in topic.iterchildren(f"{{*}}{name}")
    ]
    return [*dict.fromkeys(" ".join(text.split()) for text in texts if text.strip())]
