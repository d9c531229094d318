"""Describe the topics of a report: their top documents by system, with judgments and texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from aragorn.errors import InputError, abbreviate
from aragorn.io.dataset import Dataset
from aragorn.text.normalisation import sanitise
from aragorn_training.report.results import Evaluation

TOP_K = 5  # documents per topic and system
MAX_CHARACTERS = 1_500_000  # of all premises; long ones are cut
MIN_LENGTH = 300  # characters of a cut premise


class Document(NamedTuple):
    """Document in the top of a system."""

    docno: str
    grade: float | None  # None: unjudged
    conclusion: str
    premise: str


@dataclass(frozen=True)
class Topic:
    """Contents of a topic's section."""

    qid: str
    title: str
    n_relevant: int
    values: pd.Series  # (systems,) of the report's measure
    documents: list[Document]
    tops: dict[str, list[int]]  # positions of each system's top in `documents`


def describe_topics(
    dataset: Dataset, runs: Mapping[str, pd.DataFrame], evaluations: Sequence[Evaluation]
) -> list[Topic]:
    """Describe the topics with a value, in input order, by the first evaluation that has them;
    raise InputError if a run has a topic that the input lacks."""
    titles = dict(zip(dataset.topics["qid"], dataset.topics["query"], strict=True))
    retrieved = {qid for run in runs.values() for qid in run["qid"].unique()}
    if unknown := sorted(retrieved - {*titles}):
        reason = f"no topic {abbreviate(unknown[0])}: the runs are on another input"
        fix = "pass the input of the runs with -i, and topics of further years with another -i"
        raise InputError(dataset.name, "", reason, fix)
    tops = {
        system: run.groupby("qid", sort=False).head(TOP_K).groupby("qid")["docno"].agg(list)
        for system, run in runs.items()
    }
    by_topic = {
        qid: evaluation for evaluation in reversed(evaluations) for qid in evaluation.topics
    }
    pooled = {
        qid: list(dict.fromkeys(docno for top in tops.values() for docno in top.get(qid, ())))
        for qid in titles
        if qid in by_topic
    }
    texts = _read_texts(dataset, [docno for docnos in pooled.values() for docno in docnos])
    topics = []
    for qid, docnos in pooled.items():
        qrels = by_topic[qid].qrels.query("qid == @qid")
        grades = dict(zip(qrels["docno"], qrels["rel"], strict=True))
        n_relevant = int((qrels["rel"] > 0).sum())
        values = by_topic[qid].topics[qid]
        documents = [Document(docno, grades.get(docno), *texts[docno]) for docno in docnos]
        positions = {name: [*map(docnos.index, top.get(qid, ()))] for name, top in tops.items()}
        title = sanitise(titles[qid])
        topics.append(Topic(qid, title, n_relevant, values, documents, positions))
    return topics


def _read_texts(dataset: Dataset, docnos: list[str]) -> dict[str, tuple[str, str]]:
    """Return conclusion and premise by docno, long premises cut so that all have MAX_CHARACTERS."""
    table = dataset.documents[dataset.documents["docno"].isin(docnos)]
    limit = max(MIN_LENGTH, MAX_CHARACTERS // len(docnos))
    return {
        docno: (conclusion, premise if len(premise) <= limit else premise[:limit] + " …")
        for docno, conclusion, premise in table[["docno", "conclusion", "premise"]].to_numpy()
    }
