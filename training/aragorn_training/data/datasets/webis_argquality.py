"""Read Webis-ArgQuality-20 (Gienapp et al. 2020, ACL).

20 questions, each with about 80 judged texts and the top 50 of three retrieval models. As most
questions are Touché 2020 topics, the data set is used for testing only.
"""

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from aragorn.errors import abbreviate
from aragorn_training.data.datasets.delimited import Row, read_rows

FOLDER = "webis-argquality-20"
TOPICS, ARGUMENTS, RANKING = (
    f"webis-argquality20-{name}.csv" for name in ("topics", "arguments", "ranking")
)
TOPIC_HEADER = ("Topic ID", "Category", "Long Query", "Short Query")
ARGUMENT_HEADER = (
    "Topic ID",
    "Argument ID",
    "Discussion ID",
    "Premise",
    "Relevance",
    "Is Argument?",
    "Rhetorical Quality",
    "Logical Quality",
    "Dialectical Quality",
    "Text Length",
    "Stance",
    "Combined Quality",
)
RANKING_HEADER = ("Topic ID", "Model", "Rank", "Discussion ID", "Argument ID")
COLUMN_NAMES = {  # column of the table: published column
    "score": "Combined Quality",
    "relevance": "Relevance",
    "rhetorical": "Rhetorical Quality",
    "logical": "Logical Quality",
    "dialectical": "Dialectical Quality",
}
MODELS = ("BM25", "DPH", "DirichletLM")
KEY = ["qid", "docno"]
MAX_ABSOLUTE_VALUE = 10.0  # bound of the Bradley-Terry log-odds; -4 marks non-arguments


def list_files(directory: Path) -> list[Path]:
    """List the files of the data set in `directory`/FOLDER."""
    return [directory / FOLDER / name for name in (TOPICS, ARGUMENTS, RANKING)]


def read_judgments(directory: Path) -> pd.DataFrame:
    """Read the judged texts with their scores and the ranks of MODELS.

    Returns:
        `qid debate topic docno premise score relevance rhetorical logical dialectical argument` and
        MODELS, one row per question and text. `topic` and `debate` are the question; `score` is the
        combined quality; `argument` is true if the text is an argument; a model's column is the
        text's rank from 1, or NaN.
    """
    queries = _read_queries(directory / FOLDER / TOPICS)
    file = directory / FOLDER / ARGUMENTS
    texts = []
    names = set[str]()
    for row in read_rows(file, ARGUMENT_HEADER, ",", has_quotes=True):
        qid = _check_value(row, "topic", row.texts["Topic ID"], queries)
        docno = f"{row.texts['Discussion ID']}-{row.texts['Argument ID']}"
        row.add_unique(f"text {docno} of topic {qid}", names)
        flag = _check_value(row, "Is Argument?", row.texts["Is Argument?"], ("True", "False"))
        values = {
            column: row.get_number(name, -MAX_ABSOLUTE_VALUE, MAX_ABSOLUTE_VALUE)
            for column, name in COLUMN_NAMES.items()
        }
        key = {"qid": qid, "debate": queries[qid], "topic": queries[qid], "docno": docno}
        premise = row.get_text("Premise")
        texts.append({**key, "premise": premise, **values, "argument": flag == "True"})
    table = pd.DataFrame(texts)
    judged = {*zip(table["qid"], table["docno"], strict=True)}
    return table.join(_read_ranks(directory / FOLDER / RANKING, judged), on=KEY)


def _read_ranks(file: Path, judged_keys: set[tuple[str, str]]) -> pd.DataFrame:
    """Read the ranks (index KEY, columns MODELS); a repeated text counts once, at its best rank."""
    rows = []
    for row in read_rows(file, RANKING_HEADER, ",", has_quotes=True):
        model = _check_value(row, "Model", row.texts["Model"], MODELS)
        qid = row.texts["Topic ID"]
        docno = f"{row.texts['Discussion ID']}-{row.texts['Argument ID']}"
        if (qid, docno) not in judged_keys:
            text = f"text {abbreviate(docno)} of topic {abbreviate(qid)}"
            raise row.build_error(f"{text} is not judged in {ARGUMENTS}")
        rows.append((model, qid, docno, row.get_number("Rank", 0, 1e6)))
    rankings = pd.DataFrame(rows, columns=["model", *KEY, "rank"])
    rankings = rankings.sort_values(["model", "qid", "rank"]).drop_duplicates(["model", *KEY])
    ranks = rankings.assign(rank=rankings.groupby(["model", "qid"]).cumcount() + 1.0)
    return ranks.pivot(index=KEY, columns="model", values="rank").reindex(columns=list(MODELS))


def _read_queries(file: Path) -> dict[str, str]:
    qids: set[str] = set()
    return {
        row.add_unique(row.texts["Topic ID"], qids): row.get_text("Long Query")
        for row in read_rows(file, TOPIC_HEADER, ",", has_quotes=True)
    }


def _check_value(row: Row, name: str, value: str, valid_values: Collection[str]) -> str:
    if value not in valid_values:
        expected = f"expected one of {', '.join(valid_values)}"
        raise row.build_error(f"{name} is '{abbreviate(value)}'", expected)
    return value
