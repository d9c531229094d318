"""Webis-ArgQuality-20 (Gienapp, Stein, Hagen, Potthast: Efficient Pairwise Annotation of Argument Quality. ACL 2020).

20 questions, each with some 80 judged texts of args.me, and the first 50 texts that three retrieval models listed. Most of its
questions are topics of Touché 2020: it tests, nothing is ever trained on it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from submission.errors import InputError, short
from training.data.rows import number, once, rows, words

FOLDER = "webis-argquality-20"
TOPICS, ARGUMENTS, RANKING = (f"webis-argquality20-{name}.csv" for name in ("topics", "arguments", "ranking"))
TOPIC_HEADER = ("Topic ID", "Category", "Long Query", "Short Query")
ARGUMENT_HEADER = (
    "Topic ID", "Argument ID", "Discussion ID", "Premise", "Relevance", "Is Argument?", "Rhetorical Quality", "Logical Quality",
    "Dialectical Quality", "Text Length", "Stance", "Combined Quality",
)  # fmt: skip
RANKING_HEADER = ("Topic ID", "Model", "Rank", "Discussion ID", "Argument ID")
VALUES = {  # columns of ours: theirs
    "score": "Combined Quality", "relevance": "Relevance", "rhetorical": "Rhetorical Quality", "logical": "Logical Quality",
    "dialectical": "Dialectical Quality",
}  # fmt: skip
MODELS = ("BM25", "DPH", "DirichletLM")
TEXT = ["qid", "docno"]
MOST = 10.0  # no value is further from 0: they are log-odds of a Bradley-Terry model; -4 is what no argument has


def files(directory: Path) -> list[Path]:
    """The files of the data set in a directory of data sets."""
    return [directory / FOLDER / name for name in (TOPICS, ARGUMENTS, RANKING)]


def read(directory: Path) -> pd.DataFrame:
    """The judged texts: `qid debate topic docno premise score relevance rhetorical logical dialectical argument`, and MODELS.

    Args:
        directory: of data sets.

    Returns:
        A row a topic and text. `topic` is the question, `debate` too; `argument` says whether the text is one at all; `score`
        is the combined quality. A model's column has the rank of the text in its list, from 1; NaN where it has not listed it.

    Raises:
        InputError: a file is missing, or a bad row.
    """
    queries = _queries(directory / FOLDER / TOPICS)
    file = directory / FOLDER / ARGUMENTS
    found, seen = [], set[str]()
    for line, fields in rows(file, ARGUMENT_HEADER, ",", quoted=True):
        row = dict(zip(ARGUMENT_HEADER, fields, strict=True))
        qid, docno = _known(file, line, "topic", row["Topic ID"], queries), f"{row['Discussion ID']}-{row['Argument ID']}"
        once(file, line, f"text {docno} of topic {qid}", seen)
        argument = _known(file, line, "Is Argument?", row["Is Argument?"], ("True", "False"))
        values = {ours: number(file, line, theirs, row[theirs], -MOST, MOST) for ours, theirs in VALUES.items()}
        found.append({
            "qid": qid, "debate": queries[qid], "topic": queries[qid], "docno": docno,
            "premise": words(file, line, row["Premise"]), **values, "argument": argument == "True",
        })  # fmt: skip
    judged = pd.DataFrame(found)
    return judged.join(_ranks(directory / FOLDER / RANKING, set(zip(judged["qid"], judged["docno"], strict=True))), on=TEXT)


def _ranks(file: Path, judged: set[tuple[str, str]]) -> pd.DataFrame:
    """Rows TEXT, columns MODELS: the ranks in what the models listed; a text that a list has again counts once."""
    found = []
    for line, (qid, name, rank, discussion, argument) in rows(file, RANKING_HEADER, ",", quoted=True):
        model, docno = _known(file, line, "Model", name, MODELS), f"{discussion}-{argument}"
        if (qid, docno) not in judged:
            raise InputError(f"{file}, line {line}: text {short(docno)} of topic {short(qid)} is not judged in {ARGUMENTS}")
        found.append((model, qid, docno, number(file, line, "Rank", rank, 0, 1e6)))
    lists = pd.DataFrame(found, columns=["model", *TEXT, "rank"]).sort_values(["model", "qid", "rank"])
    lists = lists.drop_duplicates(["model", *TEXT])
    ranks = lists.assign(rank=lists.groupby(["model", "qid"]).cumcount() + 1.0)
    return ranks.pivot(index=TEXT, columns="model", values="rank").reindex(columns=list(MODELS))


def _queries(file: Path) -> dict[str, str]:
    seen: set[str] = set()
    found = rows(file, TOPIC_HEADER, ",", quoted=True)
    return {once(file, line, qid, seen): words(file, line, query) for line, (qid, _, query, _) in found}


def _known(file: Path, line: int, name: str, value: str, known: Collection[str]) -> str:
    if value not in known:
        raise InputError(f"{file}, line {line}: {name} '{short(value)}'; expected one of {', '.join(known)}")
    return value
