"""Export data sets of ir_datasets to files in the formats that `Dataset` reads."""

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import msgspec

from aragorn.errors import InputError, UsageError, abbreviate
from aragorn.paths import get_install_command
from aragorn.progress import track_weighted
from aragorn.storage.atomic_files import replace_directory

PREFIX = "irds:"
FORMAT = "aragorn-1"  # folder of the exports; changes with their format
Row = dict[str, object]


def is_identifier(path: Path) -> bool:
    """Return whether a path is irds:ID, which names a data set and no file."""
    return str(path).startswith(PREFIX)


def export(path: Path) -> Path:
    """Return the directory of a data set's files, which are written once, to $IR_DATASETS_HOME.

    Data sets with conclusions and premises become an args.me corpus and Touché topics, others a
    TIREx data set. `path` is irds:ID, where ID is e.g. argsme/2020-04-01/touche-2021-task-1.

    Raises:
        UsageError: If ir_datasets is not installed.
        InputError: If there is no such data set, it has no documents, or it cannot be downloaded.
    """
    try:
        import ir_datasets
    except ModuleNotFoundError:
        raise UsageError(
            f"{path}: ir_datasets is not installed; run `{get_install_command('irds')}`"
        ) from None
    name = str(path).removeprefix(PREFIX)
    try:
        dataset = ir_datasets.load(name)
    except KeyError:
        fix = "choose one of https://ir-datasets.com, with documents and topics"
        raise InputError(path, "", "no such data set in ir_datasets", fix) from None
    if not dataset.has_docs():
        raise InputError(path, "", "the data set has no documents", "choose one that has")
    directory = ir_datasets.util.home_path() / FORMAT / name
    if not directory.exists():
        _write(path, dataset, directory)
    return Path(directory)


def _write(path: Path, dataset: Any, directory: Path) -> None:
    is_args_me = "premises_texts" in dataset.docs_cls()._fields
    with replace_directory(directory) as temporary:
        try:
            _write_documents(dataset, is_args_me, temporary)
            if dataset.has_queries():
                _write_topics(dataset, is_args_me, temporary)
        except (OSError, RuntimeError) as error:  # RuntimeError: no source could be downloaded
            cause = f"cannot be downloaded or exported ({abbreviate(str(error))})"
            raise InputError(path, "", cause, "check network and disk, and run again") from None


def _write_documents(dataset: Any, is_args_me: bool, directory: Path) -> None:
    documents = zip(dataset.docs_iter(), repeat(1))
    tracked = track_weighted(documents, dataset.docs_count(), "export", "documents")
    if is_args_me:
        _write_lines(directory / "args-me.jsonl", map(_convert_argument, tracked))
    else:
        rows = ({"docno": row.doc_id, "text": row.default_text()} for row in tracked)
        _write_lines(directory / "documents.jsonl", rows)


def _convert_argument(argument: Any) -> Row:
    domain = argument.source_domain
    return {
        "id": argument.doc_id,
        "conclusion": argument.conclusion,
        "premises": [
            {"text": premise.text, "stance": premise.stance.name} for premise in argument.premises
        ],
        "context": {
            "sourceId": argument.source_id,
            "sourceDomain": "" if domain is None else domain.name,
        },
    }


def _write_topics(dataset: Any, is_args_me: bool, directory: Path) -> None:
    queries = [(query.query_id, query.default_text()) for query in dataset.queries_iter()]
    if not is_args_me:
        rows = ({"qid": qid, "query": text} for qid, text in queries)
        _write_lines(directory / "queries.jsonl", rows)
        return
    topics = "".join(
        f"<topic><number>{escape(qid)}</number><title>{escape(text)}</title></topic>\n"
        for qid, text in queries
    )
    (directory / "topics.xml").write_text(f"<topics>\n{topics}</topics>\n", encoding="utf-8")


def _write_lines(file: Path, rows: Iterator[Row]) -> None:
    with file.open("wb") as stream:
        for row in rows:
            stream.write(msgspec.json.encode(row) + b"\n")
