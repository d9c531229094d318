"""Read lists of arguments ranked by quality, one for each side of a debate.

UKPConvArgRank (Habernal and Gurevych 2016, ACL): 32 lists of 16 debates, `<debate>_<stance>.csv`.
Column `rank`: PageRank in the graph of lost comparisons; lower is more convincing.

IBM-ArgQ 5.3k (Toledo et al. 2019, EMNLP): 22 lists of 11 debates, `<statement>-(PRO).tsv` or
`<statement>-(CON).tsv`. Column `rank`: fraction of annotators who would recommend the argument;
higher is better.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from aragorn.errors import InputError
from aragorn_training.data.datasets.delimited import find_files, read_rows

IBM_DEBATES = (  # keywords shared by the two statements of a debate
    "autonomous cars",
    "cryptocurrency",
    "doping",
    "flu vaccination",
    "fossil fuels",
    "gambling",
    "information privacy laws",
    "online shopping",
    "social media",
    "vegetarianism",
    "violent video games",
)


@dataclass(frozen=True)
class ListDataset:
    """A data set with one file per list: its folder and format."""

    folder: str
    suffix: str
    header: tuple[str, str, str]
    has_quotes: bool
    line_break: str  # in texts
    sign: int  # of the ranks; a higher score is better
    parse_name: Callable[[Path], tuple[str, str]]  # debate and topic from a file name

    def list_files(self, directory: Path) -> list[Path]:
        """List the files of the data set in `directory`/`folder`."""
        return find_files(directory / self.folder, self.suffix)

    def read_list(self, file: Path) -> pd.DataFrame:
        """Read a list `debate topic docno premise score`; the file name holds debate and topic."""
        debate, topic = self.parse_name(file)
        arguments = []
        docnos = set[str]()
        for row in read_rows(file, self.header, "\t", self.has_quotes):
            docno = row.add_unique(row.texts[self.header[0]], docnos)
            premise = row.get_text("argument", self.line_break)
            score = self.sign * row.get_number("rank", 0, 1)
            arguments.append((debate, topic, docno, premise, score))
        return pd.DataFrame(arguments, columns=["debate", "topic", "docno", "premise", "score"])


def _parse_ukp_name(file: Path) -> tuple[str, str]:
    debate, separator, stance = file.stem.rpartition("_")
    if not (separator and debate and stance):
        raise InputError(f"{file}: unexpected file name; rename it to <debate>_<stance>.csv")
    return debate, " ".join(f"{debate} {stance}".replace("-", " ").split())


def _parse_ibm_name(file: Path) -> tuple[str, str]:
    topic = " ".join(file.stem.replace("-", " ").split())
    debates = [debate for debate in IBM_DEBATES if debate in topic.lower()]
    if len(debates) != 1:
        raise InputError(
            f"{file}: cannot determine the debate; the file name must contain exactly one of: "
            f"{', '.join(IBM_DEBATES)}"
        )
    return debates[0], topic


UKP = ListDataset(
    "ukp-conv-arg-rank", "csv", ("#id", "rank", "argument"), False, "<br/>", -1, _parse_ukp_name
)
IBM = ListDataset(
    "ibm-argq-5.3k", "tsv", ("id", "rank", "argument"), True, "\n", 1, _parse_ibm_name
)
