"""UKPConvArgRank (Habernal, Gurevych: Which argument is more convincing? ACL 2016): 32 lists, 16 debates from both sides.

A file is a list, `<debate>_<stance>.csv`. Its column `rank` is a PageRank over lost comparisons: low is convincing.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from submission.errors import InputError
from training.data.rows import listed, number, once, rows, words

FOLDER = "ukp-conv-arg-rank"
HEADER = ("#id", "rank", "argument")


def files(directory: Path) -> list[Path]:
    """The files of the data set in a directory of data sets. Raises InputError: there are none."""
    return listed(directory / FOLDER, "csv")


def read(file: Path) -> pd.DataFrame:
    """A list: `debate topic docno premise score`, the score negated, so that larger is better. Raises InputError."""
    debate, separator, stance = file.stem.rpartition("_")
    if not (separator and debate and stance):
        raise InputError(f"{file}: expected a name like <debate>_<stance>.csv, by which the sides of a debate belong together")
    topic, seen = " ".join(f"{debate} {stance}".replace("-", " ").split()), set[str]()
    found = []
    for line, (docno, rank, argument) in rows(file, HEADER, "\t", quoted=False):
        premise = words(file, line, argument.replace("<br/>", " "))
        value = -number(file, line, "rank", rank, 0, 1)
        found.append((debate, topic, once(file, line, docno, seen), premise, value))
    return pd.DataFrame(found, columns=["debate", "topic", "docno", "premise", "score"])
