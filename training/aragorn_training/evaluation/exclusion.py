"""Exclude documents from runs and qrels, e.g. those whose texts differ from the judged ones."""

import logging
from collections.abc import Set
from pathlib import Path

import pandas as pd

from aragorn.errors import InputError
from aragorn.io.trec import read_trec_lines

log = logging.getLogger(__name__)


def read_docnos(file: Path) -> set[str]:
    """Read docnos, one per line; raise InputError if a line has several fields or there is no
    docno."""
    lines = [line for line in read_trec_lines(file) if not line.is_blank_or_comment]
    invalid_line = next((line for line in lines if len(line.fields) > 1), None)
    if invalid_line:
        raise InputError(
            f"{file}, line {invalid_line.number}: {len(invalid_line.fields)} fields; expected one docno per line"
        )
    if not lines:
        raise InputError(
            f"{file}: no docno; expected one per line, as `check --mismatched-ids` writes them"
        )
    return {line.fields[0] for line in lines}


def exclude_documents(table: pd.DataFrame, docnos: Set[str], name: str) -> pd.DataFrame:
    """Return a run or qrels without the rows of some docnos; log their number; raise InputError if
    no row is left."""
    is_excluded = table["docno"].isin(docnos)
    log.info("%s: %d of %d rows excluded", name, is_excluded.sum(), len(table))
    if is_excluded.all():
        raise InputError(f"{name}: no row left; exclude fewer documents")
    return table[~is_excluded].reset_index(drop=True)
