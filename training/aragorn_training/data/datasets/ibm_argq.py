"""Read IBM-ArgQ 5.3k (Toledo et al. 2019, EMNLP): 22 lists, one for each side of 11 debates.

One file per list, `<statement>-(PRO).tsv` or `<statement>-(CON).tsv`. Column `rank`: fraction of
annotators who would recommend the argument; higher is better.
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

FOLDER = "ibm-argq-5.3k"
HEADER = ("id", "rank", "argument")
DEBATES = (  # keywords shared by the two statements of a debate
    "autonomous cars", "cryptocurrency", "doping", "flu vaccination", "fossil fuels", "gambling", "information privacy laws",
    "online shopping", "social media", "vegetarianism", "violent video games",
)  # fmt: skip


def list_files(directory: Path) -> list[Path]:
    """List the files of the data set in `directory`/FOLDER."""
    return find_files(directory / FOLDER, "tsv")


def read_list(file: Path) -> pd.DataFrame:
    """Read a list as a table `debate topic docno premise score`; the statement in the file name
    determines topic and debate."""
    topic = " ".join(file.stem.replace("-", " ").split())
    debates = [debate for debate in DEBATES if debate in topic.lower()]
    if len(debates) != 1:
        keywords = ", ".join(DEBATES)
        raise InputError(
            f"{file}: cannot determine the debate; the file name must contain exactly one of: {keywords}"
        )
    arguments = []
    docnos = set[str]()
    for line, (docno, rank, argument) in read_rows(file, HEADER, "\t", has_quotes=True):
        score = parse_number(file, line, "rank", rank, 0, 1)
        arguments.append(
            (
                debates[0],
                topic,
                add_unique(file, line, docno, docnos),
                parse_text(file, line, argument),
                score,
            )
        )
    return pd.DataFrame(arguments, columns=["debate", "topic", "docno", "premise", "score"])
