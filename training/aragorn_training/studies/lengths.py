"""Tabulate document lengths before and after enrichment (Hollatz 2022, tables 4.1, 4.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from aragorn.inference.enrichment import SHARD_SIZE
from aragorn.io.collection import Fields, select_texts
from aragorn.options import argument
from aragorn.pipeline.session import Collection
from aragorn.systems.enrichment import Enrichment
from aragorn_training.data.retrieval import load_input_fields, open_retrieval
from aragorn_training.options import CheckpointOptions, InputOptions, PrecisionOptions, StudyOptions

FILE = "tagged_document_lengths.csv"
FIRST_COLUMNS = ("corpus", "max", "min")
DIGITS = 2
ORIGINAL = "args.me"
COLUMNS = ["max", "min", "mean", "median", "sd"]


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, PrecisionOptions, CheckpointOptions, InputOptions):
    """Options of the study."""

    enrichments: tuple[str, ...] = argument(help="name of a tagger's checkpoint")


def run(options: Options) -> pd.DataFrame:
    """Tabulate the document lengths of the collection and of its enrichments as `corpus`, COLUMNS
    in whitespace words, each as often as its term frequency, and `empty_percent`."""
    with open_retrieval(options, options.work_dir) as retrieval:
        fields_by_name = load_input_fields(options.enrichments, retrieval)
        documents = retrieval.collection.documents
        frame = documents.read_texts(documents.searchable_docnos)
        texts = select_texts(frame, "conclusion premise")
        rows = [_build_row(ORIGINAL, [len(text.split()) for text in texts])]
        rows += [
            _build_row(name, _count_words(name, fields, retrieval.collection))
            for name, fields in fields_by_name.items()
        ]
        return pd.DataFrame(rows)


def _count_words(name: str, fields: Fields, collection: Collection) -> list[int]:
    """Add up the word frequencies that an enrichment assigns to each document."""
    n_documents = len(collection.documents.searchable_docnos)
    load_frequencies = Enrichment(name).enrich_collection(collection, fields)
    batches = (
        load_frequencies(start, start + SHARD_SIZE) for start in range(0, n_documents, SHARD_SIZE)
    )
    return [sum(frequencies.values()) for batch in batches for frequencies in batch]


def _build_row(name: str, lengths: Sequence[int]) -> dict[str, object]:
    values = np.array(lengths)
    figures = [values.max(), values.min(), values.mean(), np.median(values), values.std()]
    row = {"corpus": name, **dict(zip(COLUMNS, figures, strict=True))}
    return row | {"empty_percent": 100 * (values == 0).mean()}
