"""Read Webis-ArgQuality-20 (Gienapp et al. 2020, ACL).

20 questions with about 80 judged texts each, and the top 50 of three retrieval models. Most questions are Touché 2020
topics, so it is used for testing only.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from submission.errors import InputError, short
from training.data.datasets.delimited import number, once, rows, words

FOLDER = "webis-argquality-20"
TOPICS, ARGUMENTS, RANKING = (f"webis-argquality20-{name}.csv" for name in ("topics", "arguments", "ranking"))
TOPIC_HEADER = ("Topic ID", "Category", "Long Query", "Short Query")
ARGUMENT_HEADER = (
    "Topic ID", "Argument ID", "Discussion ID", "Premise", "Relevance", "Is Argument?", "Rhetorical Quality", "Logical Quality",
    "Dialectical Quality", "Text Length", "Stance", "Combined Quality",
)  # fmt: skip
RANKING_HEADER = ("Topic ID", "Model", "Rank", "Discussion ID", "Argument ID")
VALUES = {  # our columns: published columns
    "score": "Combined Quality", "relevance": "Relevance", "rhetorical": "Rhetorical Quality", "logical": "Logical Quality",
    "dialectical": "Dialectical Quality",
}  # fmt: skip
MODELS = ("BM25", "DPH", "DirichletLM")
TEXT = ["qid", "docno"]
MOST = 10.0  # bound of the Bradley-Terry log-odds; -4 marks non-arguments


def files(directory: Path) -> list[Path]:
    """List the data set's files."""
    return [directory / FOLDER / name for name in (TOPICS, ARGUMENTS, RANKING)]


def read(directory: Path) -> pd.DataFrame:
    """Read the judged texts with their scores and the ranks of MODELS.

    Args:
        directory: contains the data-set folders.

    Returns:
        `qid debate topic docno premise score relevance rhetorical logical dialectical argument` and MODELS, one row per
        question and text. `topic` and `debate` are the question; `score` is the combined quality; `argument` tells arguments
        from other texts; a model's column is the text's rank from 1, or NaN.

    Raises:
        InputError: a file is missing or has a malformed row.
    """
    queries = _queries(directory / FOLDER / TOPICS)
    file = directory / FOLDER / ARGUMENTS
    texts, seen = [], set[str]()
    for line, fields in rows(file, ARGUMENT_HEADER, ",", quoted=True):
        row = dict(zip(ARGUMENT_HEADER, fields, strict=True))
        qid, docno = _known(file, line, "topic", row["Topic ID"], queries), f"{row['Discussion ID']}-{row['Argument ID']}"
        once(file, line, f"text {docno} of topic {qid}", seen)
        is_argument = _known(file, line, "Is Argument?", row["Is Argument?"], ("True", "False"))
        values = {column: number(file, line, published, row[published], -MOST, MOST) for column, published in VALUES.items()}
        texts.append({
            "qid": qid, "debate": queries[qid], "topic": queries[qid], "docno": docno,
            "premise": words(file, line, row["Premise"]), **values, "argument": is_argument == "True",
        })  # fmt: skip
    judged = pd.DataFrame(texts)
    return judged.join(_ranks(directory / FOLDER / RANKING, set(zip(judged["qid"], judged["docno"], strict=True))), on=TEXT)


def _ranks(file: Path, judged: set[tuple[str, str]]) -> pd.DataFrame:
    """Return ranks per model (rows TEXT, columns MODELS); repeated texts count once."""
    listed = []
    for line, (qid, name, rank, discussion, argument) in rows(file, RANKING_HEADER, ",", quoted=True):
        model, docno = _known(file, line, "Model", name, MODELS), f"{discussion}-{argument}"
        if (qid, docno) not in judged:
            raise InputError(f"{file}, line {line}: text {short(docno)} of topic {short(qid)} is not judged in {ARGUMENTS}")
        listed.append((model, qid, docno, number(file, line, "Rank", rank, 0, 1e6)))
    rankings = pd.DataFrame(listed, columns=["model", *TEXT, "rank"]).sort_values(["model", "qid", "rank"])
    rankings = rankings.drop_duplicates(["model", *TEXT])
    ranks = rankings.assign(rank=rankings.groupby(["model", "qid"]).cumcount() + 1.0)
    return ranks.pivot(index=TEXT, columns="model", values="rank").reindex(columns=list(MODELS))


def _queries(file: Path) -> dict[str, str]:
    """Read the questions by qid."""
    seen: set[str] = set()
    topic_rows = rows(file, TOPIC_HEADER, ",", quoted=True)
    return {once(file, line, qid, seen): words(file, line, query) for line, (qid, _, query, _) in topic_rows}


def _known(file: Path, line: int, name: str, value: str, known: Collection[str]) -> str:
    if value not in known:
        raise InputError(f"{file}, line {line}: {name} is '{short(value)}'; expected one of {', '.join(known)}")
    return value
