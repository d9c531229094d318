"""Published documents with tags → tables, a row a document."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from submission.disk.code import code_fingerprint
from submission.disk.fingerprint import input_hashes
from submission.disk.kept import Kept
from submission.errors import InputError
from training.data.conll import SOURCES, Document, Source, read

log = logging.getLogger(__name__)

FOLDER = "tagging"
SCHEMA = pa.schema({"words": pa.list_(pa.string()), "tags": pa.list_(pa.string())})


def prepare_tagging(directory: Path, work: Path, overwrite: bool = False) -> None:
    """Write the tables essays.parquet and webd.parquet (`words tags`) into `work`/tagging. Finished ones are not made again.

    Args:
        directory: with es.txt and wd.txt as they are published.
        work: a working directory.
        overwrite: replace the tables of other data.

    Raises:
        InputError: a file is missing, or has a bad line.
        OutputError: the directory cannot be written, or holds the tables of other data.
    """
    inputs = input_hashes([directory / source.file for source in SOURCES.values()])
    kept = Kept(work / FOLDER, {"input": inputs, "code": code_fingerprint(__name__)}, overwrite)
    for name, source in SOURCES.items():
        kept.make([place(work, name).name], partial(_write, directory, name, source))


def place(work: Path, name: str) -> Path:
    """The file of a data set's table."""
    return work / FOLDER / f"{name}.parquet"


def _write(directory: Path, name: str, source: Source, file: Path) -> None:
    documents = read(directory, source)
    columns = [[document.words for document in documents], [document.tags for document in documents]]
    pq.write_table(pa.table(columns, schema=SCHEMA), file)
    words = sum(len(document.words) for document in documents)
    spans = sum(tag.startswith("B-") for document in documents for tag in document.tags)
    log.info("%s: %d documents, %d words, %d components", name, len(documents), words, spans)


def documents_of(work: Path, name: str) -> list[Document]:
    """The documents of a data set. Raises InputError: there is no such table, or it is damaged."""
    file = place(work, name)
    try:
        table = pq.read_table(file, schema=SCHEMA)
    except FileNotFoundError:
        raise InputError(f"{file}: missing; `python -m training prepare tags -i DIR --work {work}` makes it") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file}: damaged ({error}); remove it and run `python -m training prepare tags` again") from None
    return [Document(tuple(row["words"]), tuple(row["tags"])) for row in table.to_pylist()]
