"""Read documents with one tag per token in the format of TARGER's authors, and prepare, load and
split tables of them.

Each line of a file holds a token and its tag; -DOCSTART- starts a document. Component types: P
premise, C claim, MC major claim, B backing, R rebuttal, F refutation.

Persuasive essays: Stab and Gurevych, Parsing Argumentation Structures in Persuasive Essays,
Computational Linguistics 2017. Web discourse: Habernal and Gurevych, Argumentation Mining in
User-Generated Web Discourse, Computational Linguistics 2017.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from aragorn.errors import InputError, abbreviate, pluralise, suggest
from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.text.surface_tokens import find_token_spans
from aragorn.versions import describe_versions
from aragorn_training.data.datasets.delimited import read_utf8
from aragorn_training.data.split import hold_out
from aragorn_training.data.work_directory import convert_table_errors, open_folder
from aragorn_training.options import PrepareOptions, input_option

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"
DOWNLOAD_HINT = "TARGER's repository (uhh-lt/targer), data/"


@dataclass(frozen=True)
class ComponentDataset:
    """Descriptor of a published data set of tagged documents."""

    file: str
    component_types: tuple[str, ...]
    description: str  # credit line of the checkpoint card


SOURCES = {
    "essays": ComponentDataset(
        "es.txt", ("P", "C", "MC"), "persuasive essays (Stab and Gurevych; TARGER's files, MIT)"
    ),
    "webd": ComponentDataset(
        "wd.txt",
        ("P", "C", "B", "R", "F"),
        "web discourse (Habernal and Gurevych; TARGER's files, MIT)",
    ),
}


@dataclass(frozen=True)
class TaggedDocument:
    """A tokenised document with one BIO tag per token."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


def read_documents(directory: Path, dataset: ComponentDataset) -> list[TaggedDocument]:
    """Read the non-empty documents of a data set; a repeated text counts once, with its first tags.

    Tokens of the file are split by `find_token_spans`, as input texts are at inference. If a token
    with a B- tag is split, all parts but the first get an I- tag.
    """
    file = directory / dataset.file
    documents: dict[tuple[str, ...], tuple[str, ...]] = {}
    tokens: list[str] = []
    tags: list[str] = []
    in_document = False
    for line_number, line in enumerate([*read_utf8(file).split("\n"), DOCUMENT_START], 1):
        fields = line.split()
        if fields[:1] == [DOCUMENT_START]:
            if tokens:
                documents.setdefault(tuple(tokens), tuple(tags))
            tokens = []
            tags = []
            in_document = True
        elif fields:
            location = f"{file}, line {line_number}"
            if not in_document:
                cause = f"token before the first {DOCUMENT_START}"
                raise InputError(
                    f"{location}: {cause}; download the file again from {DOWNLOAD_HINT}"
                )
            if len(fields) != 2:
                cause = f"{pluralise(len(fields), 'field')} ({abbreviate(line)})"
                raise InputError(
                    f"{location}: {cause}; expected a token and its tag; download the file again "
                    f"from {DOWNLOAD_HINT}"
                )
            tag = _parse_tag(location, fields[1], dataset, tags[-1] if tags else OUTSIDE)
            for start, end in find_token_spans(fields[0]):
                tokens.append(fields[0][start:end])
                tags.append(tag)
                tag = tag.replace("B-", "I-", 1)
    if not documents:
        raise InputError(f"{file}: contains no documents; download it again from {DOWNLOAD_HINT}")
    return [TaggedDocument(*document) for document in documents.items()]


def _parse_tag(location: str, raw_tag: str, dataset: ComponentDataset, previous_tag: str) -> str:
    """Convert a tag (P-B) to BIO notation (B-P); raise InputError if it is invalid here."""
    if raw_tag == OUTSIDE:
        return OUTSIDE
    component_type, _, prefix = raw_tag.rpartition("-")
    if component_type not in dataset.component_types or prefix not in ("B", "I"):
        types = dataset.component_types
        valid_tags = [OUTSIDE, *(f"{component}-{prefix}" for component in types for prefix in "BI")]
        raise InputError(
            f"{location}: unknown tag '{abbreviate(raw_tag)}'; {suggest(raw_tag, valid_tags)}"
        )
    if prefix == "I" and previous_tag not in (f"B-{component_type}", f"I-{component_type}"):
        raise InputError(
            f"{location}: {raw_tag} follows {previous_tag}; a component must start with "
            f"{component_type}-B"
        )
    return f"{prefix}-{component_type}"


def list_tags(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the distinct BIO tags of data sets, given as keys of SOURCES; O comes first."""
    component_types = dict.fromkeys(
        component_type for name in names for component_type in SOURCES[name].component_types
    )
    return (
        OUTSIDE,
        *(f"{prefix}-{component_type}" for component_type in component_types for prefix in "BI"),
    )


VERSION = 1  # of the tables made from the same data sets
COMPUTES_WITH = ("aragorn.text.surface_tokens", "numpy", "pandas")

log = logging.getLogger(__name__)

SCHEMA = pa.schema({"words": pa.list_(pa.string()), "tags": pa.list_(pa.string())})
TEST_FRACTION = 0.2  # held-out fraction of the documents


class Split(NamedTuple):
    """Disjoint training and test documents."""

    train: list[TaggedDocument]
    test: list[TaggedDocument]


@dataclass(frozen=True, kw_only=True)
class Options(PrepareOptions):
    """Options of `prepare tags`."""

    input_dir: Path = input_option(
        "directory with es.txt and wd.txt (persuasive essays, web discourse), "
        "as published by TARGER's authors"
    )


def prepare_tags(options: Options) -> None:
    """Build token-level argument annotations for TARGER."""
    directory = options.input_dir
    inputs = hash_input_files([directory / dataset.file for dataset in SOURCES.values()])
    versions = describe_versions(__name__)
    cache_key = {"input": inputs, "version": versions}
    folder = options.work_dir / "tagging"
    with open_folder(folder, options.work_dir):
        tables = RecordedFiles(folder, cache_key, options.overwrite)
        for name, dataset in SOURCES.items():
            file = get_table_path(options.work_dir, name)
            tables.build([file.name], partial(_write_table, directory, name, dataset))


def get_table_path(work_dir: Path, name: str) -> Path:
    """Return the path of a data set's table in a working directory."""
    return work_dir / "tagging" / f"{name}.parquet"


def _write_table(directory: Path, name: str, dataset: ComponentDataset, file: Path) -> None:
    documents = read_documents(directory, dataset)
    columns = {
        "words": [document.tokens for document in documents],
        "tags": [document.tags for document in documents],
    }
    pq.write_table(pa.table(columns, SCHEMA), file)
    n_tokens = sum(len(document.tokens) for document in documents)
    n_components = sum(tag.startswith("B-") for document in documents for tag in document.tags)
    counts = f"{len(documents)} documents, {n_tokens} tokens, {n_components} components"
    log.info("%s: %s", name, counts)


def load_documents(work_dir: Path, name: str) -> list[TaggedDocument]:
    """Load the tagged documents of a prepared data set by name, a key of SOURCES."""
    file = get_table_path(work_dir, name)
    with convert_table_errors(file, work_dir, "tags"):
        table = pq.read_table(file, schema=SCHEMA)
    return [TaggedDocument(tuple(row["words"]), tuple(row["tags"])) for row in table.to_pylist()]


def split_documents(documents: Sequence[TaggedDocument], seed: int) -> Split:
    """Split documents at random; the share of test documents, at least one, is TEST_FRACTION."""
    test, train = hold_out(len(documents), round(TEST_FRACTION * len(documents)), seed)
    return Split([documents[index] for index in train], [documents[index] for index in test])
