"""Prepare the training lists of the task `distillation` from a table of labelled pairs."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from aragorn.errors import InputError
from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.versions import describe_versions
from aragorn_training.data.corpora import UNKNOWN_LICENCE
from aragorn_training.data.datasets.delimited import read_rows
from aragorn_training.data.distillation import get_table_path
from aragorn_training.data.quality import COLUMNS
from aragorn_training.data.work_directory import open_folder
from aragorn_training.options import PrepareOptions, input_option

VERSION = 1  # of the lists made from the same table
COMPUTES_WITH = ("aragorn_training.data.quality", "pandas")

HEADER = ("query", "text", "label")
MAX_LABEL = 1e6
MIN_QUERIES = 2  # one is held out

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options(PrepareOptions):
    """Options of `prepare labels`."""

    table: Path = input_option(
        "table with the columns query, text and label (a number, higher: better), tab-separated or "
        ".csv"
    )


def prepare_labels(options: Options) -> None:
    """Read labelled pairs, for recipes with [distillation], instead of a teacher's scores.

    The table is UTF-8; .csv files have commas and double quotes. Its pairs become training lists,
    one per query. Raises InputError if the table is malformed, or fewer than MIN_QUERIES queries
    have texts of different labels.
    """
    cache_key = {
        "input": hash_input_files([options.table]),
        "data": options.table.name,
        "licence": UNKNOWN_LICENCE,
        "version": describe_versions(__name__),
    }
    output = get_table_path(options.work_dir)
    with open_folder(output.parent, options.work_dir):
        tables = RecordedFiles(output.parent, cache_key, options.overwrite)
        tables.build([output.name], partial(_write_lists, options.table))


def _write_lists(file: Path, output: Path) -> None:
    table = _read_pairs(file)
    n_labels = table.groupby("topic")["score"].transform("nunique")
    lists = table[n_labels > 1].sort_values("topic", kind="stable", ignore_index=True)
    n_queries = lists["topic"].nunique()
    if n_queries < MIN_QUERIES:
        raise InputError(
            f"{file}: {n_queries} of {table['topic'].nunique()} queries have texts of different "
            f"labels; at least {MIN_QUERIES} are needed, as one is held out"
        )
    lists[COLUMNS].to_parquet(output, index=False)
    log.info("%d labelled pairs of %d queries", len(lists), n_queries)


def _read_pairs(file: Path) -> pd.DataFrame:
    """Read the labelled pairs as COLUMNS; the query is debate and topic, the line the docno."""
    is_csv = file.suffix == ".csv"
    rows = []
    for row in read_rows(file, HEADER, "," if is_csv else "\t", is_csv):
        score = row.get_number("label", -MAX_LABEL, MAX_LABEL)
        rows.append((str(row.line), row.get_text("query"), row.get_text("text"), score))
    table = pd.DataFrame(rows, columns=["docno", "topic", "premise", "score"])
    return table.assign(data=file.name, debate=table["topic"])
