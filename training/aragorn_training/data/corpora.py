"""Name the corpus that a checkpoint is trained on, and its licence, for provenance and cards."""

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from aragorn.io.collection import find_mismatched_ids
from aragorn.io.dataset import Dataset
from aragorn.io.touche import Argument, find_corpus_files, read_arguments, to_frame
from aragorn.paths import SAMPLE_INPUT
from aragorn.progress import suppress_info
from aragorn.storage.atomic_files import get_printable_name

ARGS_ME = {"data": "args.me", "licence": "CC BY 4.0"}
SAMPLE = {"data": "Aragorn sample", "licence": "MIT"}
UNKNOWN_LICENCE = "not stated"
ARGUMENTS_PER_FILE = 1_000  # by which a corpus is recognised
MAX_MISMATCHES = 0.01  # share of ids that may not be the hash of their text in args.me


def describe_corpus(files: Sequence[Path]) -> dict[str, str]:
    """Return name (`data`) and `licence` of the corpus in args.me files.

    The sample is recognised by its ids, args.me 2020-04-01 by ids that are hashes of their texts.
    Another corpus has the name of its directory, and no licence.
    """
    parts = (islice(read_arguments(file, Argument), ARGUMENTS_PER_FILE) for file in files)
    documents = to_frame([*chain.from_iterable(parts)])
    sample_files = find_corpus_files(SAMPLE_INPUT)
    sample_docnos = {
        argument.id for file in sample_files for argument in read_arguments(file, Argument)
    }
    if sample_docnos.issuperset(documents["docno"]):
        return SAMPLE
    with suppress_info():
        mismatched_docnos, n_hashed = find_mismatched_ids(documents)
    if n_hashed == len(documents) and len(mismatched_docnos) <= MAX_MISMATCHES * n_hashed:
        return ARGS_ME
    return {"data": get_printable_name(files[0].parent), "licence": UNKNOWN_LICENCE}


def describe_dataset(dataset: Dataset) -> dict[str, str]:
    """Return name (`data`) and `licence` of the corpus of a dataset."""
    if dataset.is_tirex:
        name = get_printable_name(dataset.corpus_files[0].parent)
        return {"data": name, "licence": UNKNOWN_LICENCE}
    return describe_corpus(dataset.corpus_files)


def describe_judged_data(dataset: Dataset, hashes: dict[str, str]) -> dict[str, Any]:
    """Return the training data of a provenance: the files of a dataset and other hashed files as
    `input`, and the entries of `describe_dataset`."""
    return {"input": dataset.file_hashes | hashes, **describe_dataset(dataset)}


def format_credit(training_data: Mapping[str, Any]) -> str:
    """Format the arguments of a corpus with publisher and licence, for a card; `training_data` has
    the entries of `describe_corpus`."""
    name = training_data["data"]
    publisher = "Webis, " if name == ARGS_ME["data"] else ""
    licence = training_data["licence"]
    suffix = "licence not stated" if licence == UNKNOWN_LICENCE else licence
    return f"{name} arguments ({publisher}{suffix})"


def format_judged_credit(training_data: Mapping[str, Any]) -> str:
    """Format the arguments of a corpus and their judgments, for a card."""
    owner = "Touché's " if training_data["data"] == ARGS_ME["data"] else ""
    return f"{format_credit(training_data)} and {owner}judgments"
