"""Read UKPConvArgRank (Habernal and Gurevych 2016, ACL): 32 lists, one for each side of 16 debates.

One file per list, `<debate>_<stance>.csv`. Column `rank`: PageRank in the graph of lost
comparisons; lower is more convincing.
"""

from pathlib import Path

import pandas as pd

from aragorn.errors import InputError
from aragorn_training.data.datasets.delimited import (
    add_unique,
    find_files,
    parse_number,
    parse_text,
    read_rows,
)

FOLDER = "ukp-conv-arg-rank"
HEADER = ("#id", "rank", "argument")


def list_files(directory: Path) -> list[Path]:
    """List the files of the data set in `directory`/FOLDER."""
    return find_files(directory / FOLDER, "csv")


def read_list(file: Path) -> pd.DataFrame:
    """Read a list as a table `debate topic docno premise score`; scores are negated PageRanks."""
    debate, separator, stance = file.stem.rpartition("_")
    if not (separator and debate and stance):
        raise InputError(f"{file}: unexpected file name; rename it to <debate>_<stance>.csv")
    topic = " ".join(f"{debate} {stance}".replace("-", " ").split())
    docnos = set[str]()
    arguments = []
    for line, (docno, rank, argument) in read_rows(file, HEADER, "\t", has_quotes=False):
        premise = parse_text(file, line, argument.replace("<br/>", " "))
        score = -parse_number(file, line, "rank", rank, 0, 1)
        arguments.append((debate, topic, add_unique(file, line, docno, docnos), premise, score))
    return pd.DataFrame(arguments, columns=["debate", "topic", "docno", "premise", "score"])
