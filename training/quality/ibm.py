"""IBM-ArgQ 5.3k (Toledo et al.: Automatic Argument Quality Assessment. EMNLP 2019): 22 lists, 11 debates from both sides.

A file is a list, `<statement>-(PRO).tsv` or `-(CON).tsv`. Its column `rank` is the share of annotators who would recommend the
argument: high is good.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from submission.errors import InputError
from training.data.rows import listed, number, once, rows, words

FOLDER = "ibm-argq-5.3k"
HEADER = ("id", "rank", "argument")
DEBATES = (  # words of the statements of both sides, which else share none
    "autonomous cars", "cryptocurrency", "doping", "flu vaccination", "fossil fuels", "gambling", "information privacy laws",
    "online shopping", "social media", "vegetarianism", "violent video games",
)  # fmt: skip


def files(directory: Path) -> list[Path]:
    """The files of the data set in a directory of data sets. Raises InputError: there are none."""
    return listed(directory / FOLDER, "tsv")


def read(file: Path) -> pd.DataFrame:
    """A list: `debate topic docno premise score`. Raises InputError."""
    topic = " ".join(file.stem.replace("-", " ").split())
    debates = [debate for debate in DEBATES if debate in topic.lower()]
    if len(debates) != 1:
        raise InputError(f"{file}: of which debate? Expected one of these words in its name: {', '.join(DEBATES)}")
    found, seen = [], set[str]()
    for line, (docno, rank, argument) in rows(file, HEADER, "\t", quoted=True):
        value = number(file, line, "rank", rank, 0, 1)
        found.append((debates[0], topic, once(file, line, docno, seen), words(file, line, argument), value))
    return pd.DataFrame(found, columns=["debate", "topic", "docno", "premise", "score"])
