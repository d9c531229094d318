"""Read Touché's formats: topics in XML, and arguments of args.me in JSON or JSON Lines.

topics*.xml                     <topics><topic><number>1</number><title>…</title></topic></topics>
args-me*.json, <portal>.json    {"arguments": [{"id", "conclusion", "premises": [{"text"}]}]}
args-me*.jsonl, <portal>.jsonl  an argument per line; its premise may also be the text `argument`,
                                as in the Hugging Face copy
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from lxml import etree
from msgspec import UNSET, Raw, UnsetType

from aragorn.errors import InputError, abbreviate, abbreviate_list, pluralise
from aragorn.io.files import (
    BOM,
    ID_RULE,
    Buffer,
    Inputs,
    as_input_errors,
    batched,
    decode_records,
    describe_json_error,
    format_id,
    is_invalid_id,
    quote_id,
    read_bytes,
    read_jsonl,
)
from aragorn.io.formats import START_SIZE, describe_text
from aragorn.progress import pause_gc

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1  # of topics and documents read from the same files

log = logging.getLogger(__name__)

TOPIC_FILES = "topics*.xml"
EXPECTED_TOPICS = (
    "expected <topics><topic>…</topic></topics> in well-formed UTF-8 XML; convert other formats"
)
PORTALS = ("debateorg", "debatepedia", "debatewise", "idebate", "parliamentary")
PORTAL_FILES = tuple(f"{portal}{suffix}" for portal in PORTALS for suffix in (".json", ".jsonl"))
ARGS_ME_FILES = ("args-me*.json", "args-me*.jsonl")
EXPECTED_CORPUS = (
    f"expected args-me*.json, or {', '.join(PORTAL_FILES[::2])} (also .jsonl with one argument per "
    "line; optionally .gz); pass a corpus elsewhere with another -i"
)
# arguments of `Inputs.require`
TOPICS = ("topics", f"expected a file named {TOPIC_FILES} (optionally .gz)", TOPIC_FILES)
CORPUS = ("corpus", EXPECTED_CORPUS, *PORTAL_FILES, *ARGS_ME_FILES)
STANCES = {b'"PRO"': "PRO", b'"CON"': "CON"}
JSON_SCHEMA = 'expected {"arguments": [{"id": …, "conclusion": …, "premises": [{"text": …}]}]}'
JSONL_SCHEMA = (
    'expected {"id": …, "conclusion": …, "premises": [{"text": …}]} or '
    '{"id": …, "conclusion": …, "argument": …}; a single object with all arguments must be named '
    ".json"
)


class Topic(NamedTuple):
    """Topic of a file; `location` is its line."""

    qid: str
    query: str
    location: str


class Premise(msgspec.Struct, gc=False):
    """Premise of an argument."""

    text: str


class Argument(msgspec.Struct, gc=False):
    """Argument of args.me, with either `premises` or `argument`, the text of its only premise."""

    id: str
    conclusion: str
    premises: tuple[Premise, ...] | UnsetType = UNSET
    argument: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid id, or unless there are premises or an argument."""
        if is_invalid_id(self.id):
            raise ValueError(f"invalid id {quote_id(self.id)}; {ID_RULE}")
        if (self.premises is UNSET) == (self.argument is UNSET):
            has = "neither premises nor" if self.premises is UNSET else "both premises and"
            raise ValueError(f"has {has} argument; give one of them")


class PremiseWithStance(Premise, gc=False):
    """Premise with its stance; undecoded, so that reading does not fail."""

    stance: Raw = Raw()


class ArgumentWithContext(Argument, gc=False):
    """Argument with its stance and context; undecoded, so that reading does not fail."""

    premises: tuple[PremiseWithStance, ...] | UnsetType = UNSET
    stance: Raw = Raw()
    context: Raw = Raw()


Item = TypeVar("Item")
Record = TypeVar("Record", bound=Argument)


class _Corpus(msgspec.Struct, Generic[Item], gc=False):
    arguments: list[Item]


class _Context(msgspec.Struct, gc=False):
    sourceDomain: Any = None  # noqa: N815 name in args.me


_decode_context = msgspec.json.Decoder(_Context).decode


def find_corpus_files(*paths: Path) -> list[Path]:
    """Return the args.me files of an input by name; raise InputError if there are none."""
    return Inputs(paths).require(*CORPUS)


def read_topics(files: Sequence[Path]) -> pd.DataFrame:
    """Read topics `qid query` by number; raise InputError for an invalid or repeated one."""
    import pandas as pd

    titles: dict[str, str] = {}
    locations: dict[str, str] = {}
    for file in files:
        for qid, title, location in read_topics_xml(file):
            if qid in titles:
                reason = f"duplicate topic {abbreviate(qid)} (first at {locations[qid]})"
                raise InputError(file, location, reason, "remove one")
            titles[qid] = title
            locations[qid] = f"{file}, {location}"
    return sort_topics(pd.DataFrame({"qid": titles.keys(), "query": titles.values()}, dtype=object))


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


def read_topics_xml(file: Path) -> Iterator[Topic]:
    """Yield the topics of an XML file; raise InputError for the first invalid one."""
    root = _parse_xml(file)
    topics = [*root.iter("{*}topic")]
    if not topics:
        names = dict.fromkeys(f"<{etree.QName(item).localname}>" for item in root.iter("*"))
        reason = f"no <topic> element, but {abbreviate_list([*names])}"
        raise InputError(file, "", reason, EXPECTED_TOPICS)
    for topic in topics:
        location = f"line {topic.sourceline}"
        qid = _read_value(file, topic, "topic", "number", "num")
        if rule := describe_invalid_qid(qid):
            raise InputError(file, location, f"invalid number {quote_id(qid)}", rule)
        title = _read_value(file, topic, f"topic {abbreviate(qid)}", "title", "query")
        yield Topic(qid, title, location)


def _parse_xml(file: Path) -> etree._Element:
    # For security, neither load external resources nor expand entities.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        with as_input_errors(file):
            content = bytes(read_bytes(file))
            tree = etree.ElementTree(etree.fromstring(content, parser))
    except etree.XMLSyntaxError as error:
        has_second_root = "Extra content" in str(error)
        fix = "put all topics into one <topics> element" if has_second_root else EXPECTED_TOPICS
        reason = f"malformed XML ({error.msg})"
        fix += describe_text(content[:START_SIZE], "XML")
        raise InputError(file, f"line {error.lineno}", reason, fix) from None
    if tree.docinfo.internalDTD is not None or tree.docinfo.externalDTD is not None:
        reason = "document type declaration not allowed"
        raise InputError(file, "", reason, "remove <!DOCTYPE …>")
    return tree.getroot()


def _read_value(file: Path, topic: etree._Element, label: str, *names: str) -> str:
    """Return the only value of attributes and children with these names, or raise InputError."""
    attributes = (name for name in topic.keys() if etree.QName(name).localname in names)  # noqa: SIM118 no mapping
    texts = [str(topic.get(name)) for name in attributes]
    children = [child for name in names for child in topic.iterchildren(f"{{*}}{name}")]
    texts += [str(child.xpath("string()")) for child in children]
    values = [*dict.fromkeys(" ".join(text.split()) for text in texts if text.strip())]
    if len(values) == 1:
        return values[0]
    problem = f"has no {names[0]}"
    fix = f"expected {' or '.join(names)}, as element or attribute"
    if values:
        problem = f"has several {names[0]}s ({abbreviate_list(values)})"
        fix = "keep one"
    raise InputError(file, f"line {topic.sourceline}", f"{label} {problem}", fix)


def read_arguments(file: Path, record_type: type[Record]) -> Iterator[Record]:
    """Yield the arguments of an args.me file; raise InputError for the first invalid one.

    A JSON file is split into undecoded arguments first, which needs less memory.
    """
    if _is_jsonl(file):
        records = read_jsonl(file, record_type, JSONL_SCHEMA)
    else:
        arguments = _split_corpus(file)
        records = decode_records(file, "argument", arguments, record_type, JSON_SCHEMA)
    for _, argument in records:
        yield argument


def _read_at_once(file: Path) -> Sequence[Argument]:
    """Return the arguments of a file; decoding valid JSON in one call is faster."""
    if not _is_jsonl(file):
        with suppress(ValueError, RecursionError, MemoryError):
            return msgspec.json.decode(_read_json(file), type=_Corpus[Argument]).arguments
    return [*read_arguments(file, Argument)]


def _is_jsonl(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(".jsonl")


def _read_json(file: Path) -> Buffer:
    """Return the content of a JSON file without byte order mark, copied only if it has one."""
    content = read_bytes(file)
    return content[len(BOM) :] if content[: len(BOM)] == BOM else content


def _split_corpus(file: Path) -> Iterator[tuple[int, Raw]]:
    """Return positions (from 1) and undecoded arguments of a JSON file."""
    data = _read_json(file)
    try:
        with pause_gc():
            return enumerate(msgspec.json.decode(data, type=_Corpus[Raw]).arguments, 1)
    except msgspec.ValidationError as error:
        first_line = bytes(data[: 1 << 24]).partition(b"\n")[0]
        hint = describe_text(first_line, "JSON")
        if first_line.lstrip()[:1] == b"[":
            hint = '; a list of arguments must be the value of "arguments"'
        elif format_id(first_line):
            hint = "; files with one argument per line must be named .jsonl"
        raise InputError(file, "", abbreviate(str(error), 200), f"{JSON_SCHEMA}{hint}") from None
    except (ValueError, RecursionError) as error:
        offset, reason, fix = describe_json_error(data, error)
        prefix = bytes(data[:offset])
        column = len(prefix[prefix.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
        location = f"line {prefix.count(bytes([10])) + 1}, column {column}{_format_last_id(prefix)}"
        raise InputError(file, location, f"{reason}; {JSON_SCHEMA}", fix) from None


def _format_last_id(prefix: bytes) -> str:
    """Return " (after id X)" with the last id of a prefix of a JSON text; "" if there is none."""
    _, key, suffix = prefix.rpartition(b'"id":')
    _, _, value = suffix[:300].partition(b'"')
    identifier, quote, _ = value.partition(b'"')
    has_id = key and quote
    return f" (after id {abbreviate(identifier.decode(errors='replace'))})" if has_id else ""


@pause_gc()
def read_documents(files: Sequence[Path]) -> pd.DataFrame:
    """Read the documents `docno conclusion premise` of args.me files in file order.

    Repeated arguments are dropped; an id with different texts raises InputError.
    """
    import pandas as pd

    frames = [to_frame(_read_at_once(file)) for file in files]
    for file, frame in zip(files, frames, strict=True):
        log.info("%s: %d arguments", file.name, len(frame))
    documents = pd.concat(frames, ignore_index=True, copy=False)
    duplicates = documents[documents["docno"].duplicated(keep=False)]
    if len(duplicates):
        file_names = np.repeat(list(map(str, files)), [len(frame) for frame in frames])
        _raise_if_conflicting(duplicates, file_names)
        n_total = len(documents)
        documents = documents.drop_duplicates("docno", ignore_index=True)
        n_dropped = n_total - len(documents)
        log.warning("dropped %s (same id and text)", pluralise(n_dropped, "duplicate argument"))
    return documents


def iter_batches(file: Path) -> Iterator[pd.DataFrame]:
    """Yield documents `docno conclusion premise stance portal` in batches; "" if unknown."""
    n_arguments = 0
    stem = file.name.split(".")[0]
    for batch in batched(read_arguments(file, ArgumentWithContext)):
        n_arguments += len(batch)
        stances = map(_get_stance, batch)
        portals = repeat(stem) if stem in PORTALS else map(_get_domain, batch)
        yield to_frame(batch, stance=stances, portal=portals)
    log.info("%s: %d arguments", file.name, n_arguments)


def _get_stance(argument: ArgumentWithContext) -> str:
    """Return the stance that all premises share, or that of the argument; "" if there is none."""
    stances = {bytes(premise.stance) for premise in argument.premises or (argument,)}
    return STANCES.get(stances.pop(), "") if len(stances) == 1 else ""


def _get_domain(argument: ArgumentWithContext) -> str:
    """Return the domain of the portal that an argument is from; "" if it is unknown."""
    try:
        domain = _decode_context(argument.context).sourceDomain
    except (ValueError, RecursionError):
        return ""
    return domain if isinstance(domain, str) else ""


def to_frame(arguments: Sequence[Argument], **columns: Iterable[str]) -> pd.DataFrame:
    """Return documents `docno conclusion premise` and more columns; premises are joined."""
    import pandas as pd

    premises = (
        argument.argument
        if argument.premises is UNSET
        else " ".join([premise.text for premise in argument.premises])
        for argument in arguments
    )
    texts: dict[str, Iterable[object]] = {
        "docno": (argument.id for argument in arguments),
        "conclusion": (argument.conclusion for argument in arguments),
        "premise": premises,
    }
    # faster than a frame of lists
    arrays = {
        name: np.fromiter(values, object, len(arguments))
        for name, values in (texts | columns).items()
    }
    return pd.DataFrame(arrays, copy=False)


def _raise_if_conflicting(duplicates: pd.DataFrame, file_names: np.ndarray) -> None:
    """Raise InputError for the first id with different texts; `file_names` are by index."""
    first: dict[str, list[str]] = {}
    rows = duplicates.itertuples(index=False, name=None)
    conflicting_ids = {docno for docno, *texts in rows if first.setdefault(docno, texts) != texts}
    if conflicting_ids:
        docno = min(conflicting_ids)
        positions = duplicates.index[duplicates["docno"] == docno]
        files = ", ".join(sorted(set(file_names[positions])))
        reason = f"argument {abbreviate(docno)} occurs {len(positions)} times with different texts"
        raise InputError(files, "", reason, "use the files of a single corpus version")
