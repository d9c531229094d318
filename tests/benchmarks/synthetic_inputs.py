"""Inputs of the sizes that are measured, made from a small one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import torch

from submission.data.args_me import find_corpus_files
from submission.data.collection import select_collection
from submission.data.dataset import Dataset
from submission.data.topics import find_topic_files
from submission.paths import CHECKPOINT_DIR
from submission.storage.cache_directory import CacheDirectory
from submission.systems.checkpoint_store import CheckpointStore
from submission.systems.execution import Execution

ARGUMENTS, CONCLUSIONS = 387_740, 66_000  # of args.me


def full_size(directory: Path, into: Path, arguments: int = ARGUMENTS) -> Path:
    """An input as large as args.me: the premises of an input again and again, under conclusions of its conclusions' words."""
    corpus, rng = Dataset(directory).documents, np.random.default_rng(0)
    words = np.array(" ".join(corpus["conclusion"].unique()).split())  # once: of a list, each choice would make an array anew
    number = max(1, arguments * CONCLUSIONS // ARGUMENTS)
    conclusions = [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(number)]
    premises = corpus["premise"].tolist()
    into.mkdir(parents=True, exist_ok=True)
    with (into / "args-me.json").open("w", encoding="utf-8") as file:
        file.write('{"arguments": [')
        for row in range(arguments):
            argument = {
                "id": f"S{row % number:08x}-A{row:08x}",
                "conclusion": conclusions[row % number],
                "premises": [{"text": premises[row % len(premises)], "stance": "PRO", "annotations": []}],
                "context": {"sourceDomain": "example.org", "discussionTitle": conclusions[row % number], "mode": "person"},
            }
            file.write((",\n" if row else "") + json.dumps(argument))
        file.write("]}")
    for topics in find_topic_files(directory):
        shutil.copy(topics, into)
    return into


@contextmanager
def execution(directory: Path) -> Iterator[Execution]:
    """An execution on an input, on the CPU, which keeps nothing."""
    with CacheDirectory(None, directory) as work:
        yield Execution(Dataset(directory), CheckpointStore(CHECKPOINT_DIR), torch.device("cpu"), work)


def collection_of(directory: Path) -> pd.DataFrame:
    """The documents `docno conclusion premise` that are long enough to be retrieved."""
    return select_collection(Dataset(directory).documents)


def part_of(directory: Path, into: Path, share: float) -> Path:
    """An input with a share of the arguments of another, and its topics."""
    corpus = Dataset(directory).documents.sample(frac=share, random_state=0)
    rows = zip(corpus["docno"], corpus["conclusion"], corpus["premise"], strict=True)
    arguments = [{"id": docno, "conclusion": c, "premises": [{"text": premise}]} for docno, c, premise in rows]
    into.mkdir(parents=True, exist_ok=True)
    (into / "args-me.json").write_text(json.dumps({"arguments": arguments}), encoding="utf-8")
    write_topics(Dataset(directory).topics, into)
    return into


def lines_of(directory: Path, into: Path, share: int) -> int:
    """Write every so many-th argument of an input as a corpus with an argument a line; how many."""
    into.mkdir(parents=True, exist_ok=True)
    corpus = Dataset(directory).documents.iloc[::share]
    with (into / "args-me.jsonl").open("w", encoding="utf-8") as file:
        for docno, conclusion, premise in zip(corpus["docno"], corpus["conclusion"], corpus["premise"], strict=True):
            file.write(json.dumps({"id": docno, "conclusion": conclusion, "premises": [{"text": premise}]}) + "\n")
    return len(corpus)


def halves_of_topics(directory: Path, into: Path) -> list[Path]:
    """Two inputs with the corpus of another and every second topic of it."""
    topics, inputs = Dataset(directory).topics, []
    for half in range(2):
        place = into / f"half-{half}"
        place.mkdir(parents=True)
        write_topics(topics[half::2], place)
        for file in find_corpus_files(directory):
            (place / file.name).symlink_to(file.resolve())
        inputs.append(place)
    return inputs


def write_topics(topics: pd.DataFrame, into: Path) -> None:
    """Topics `qid query` in Touché's form."""
    rows = zip(topics["qid"], topics["query"], strict=True)
    body = "".join(f"<topic><number>{qid}</number><title>{escape(query)}</title></topic>\n" for qid, query in rows)
    (into / "topics.xml").write_text(f"<topics>\n{body}</topics>\n", encoding="utf-8")
