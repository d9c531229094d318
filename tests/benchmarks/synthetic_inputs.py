"""Generate inputs of different sizes from a small input, and load and sample inputs."""

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
from submission.systems.execution import CheckpointStore, Execution

ARGUMENTS, CONCLUSIONS = 387_740, 66_000  # numbers of arguments and of distinct conclusions in args.me


def write_full_size(directory: Path, output: Path, argument_count: int = ARGUMENTS) -> Path:
    """Write an input generated from a small one, by default of the size of args.me.

    Premises repeat those of the small input, and conclusions are random sequences of words from its conclusions.
    """
    corpus, rng = Dataset(directory).documents, np.random.default_rng(0)
    words = np.array(" ".join(corpus["conclusion"].unique()).split())
    conclusion_count = max(1, argument_count * CONCLUSIONS // ARGUMENTS)
    conclusions = [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(conclusion_count)]
    premises = corpus["premise"].tolist()
    output.mkdir(parents=True, exist_ok=True)
    with (output / "args-me.json").open("w", encoding="utf-8") as file:
        file.write('{"arguments": [')
        for row in range(argument_count):
            conclusion = conclusions[row % conclusion_count]
            argument = {
                "id": f"S{row % conclusion_count:08x}-A{row:08x}",
                "conclusion": conclusion,
                "premises": [{"text": premises[row % len(premises)], "stance": "PRO", "annotations": []}],
                "context": {
                    "sourceDomain": "example.org",
                    "discussionTitle": conclusions[row % conclusion_count],
                    "mode": "person",
                },
            }
            file.write((",\n" if row else "") + json.dumps(argument))
        file.write("]}")
    for topics in find_topic_files(directory):
        shutil.copy(topics, output)
    return output


@contextmanager
def open_execution(directory: Path) -> Iterator[Execution]:
    """Open an execution on an input, on the CPU and without a persistent cache."""
    with CacheDirectory(None, directory) as cache:
        yield Execution(Dataset(directory), CheckpointStore(CHECKPOINT_DIR), torch.device("cpu"), cache)


def load_collection(directory: Path) -> pd.DataFrame:
    """Load the searchable documents `docno conclusion premise` of an input."""
    return select_collection(Dataset(directory).documents)


def sample_premises(directory: Path, n: int) -> list[str]:
    """Select at most `n` premises, evenly spaced over the collection."""
    premises = load_collection(directory)["premise"].tolist()
    return [premises[row] for row in np.unique(np.linspace(0, len(premises) - 1, n).astype(int))]


def write_sample(directory: Path, output: Path, share: float) -> Path:
    """Write an input with all topics and a random share of the arguments."""
    corpus = Dataset(directory).documents.sample(frac=share, random_state=0)
    rows = zip(corpus["docno"], corpus["conclusion"], corpus["premise"], strict=True)
    arguments = [
        {"id": docno, "conclusion": conclusion, "premises": [{"text": premise}]} for docno, conclusion, premise in rows
    ]
    output.mkdir(parents=True, exist_ok=True)
    (output / "args-me.json").write_text(json.dumps({"arguments": arguments}), encoding="utf-8")
    write_topics(Dataset(directory).topics, output)
    return output


def write_json_lines(directory: Path, output: Path, step: int) -> int:
    """Write every `step`-th argument to a JSON Lines file and return the number of arguments written."""
    output.mkdir(parents=True, exist_ok=True)
    corpus = Dataset(directory).documents.iloc[::step]
    with (output / "args-me.jsonl").open("w", encoding="utf-8") as file:
        for docno, conclusion, premise in zip(corpus["docno"], corpus["conclusion"], corpus["premise"], strict=True):
            file.write(json.dumps({"id": docno, "conclusion": conclusion, "premises": [{"text": premise}]}) + "\n")
    return len(corpus)


def split_topics(directory: Path, output: Path) -> list[Path]:
    """Write two inputs with the same corpus and half of the topics each."""
    topics, inputs = Dataset(directory).topics, []
    for half in range(2):
        half_dir = output / f"half-{half}"
        half_dir.mkdir(parents=True)
        write_topics(topics[half::2], half_dir)
        for file in find_corpus_files(directory):
            (half_dir / file.name).symlink_to(file.resolve())
        inputs.append(half_dir)
    return inputs


def write_topics(topics: pd.DataFrame, output: Path) -> None:
    """Write topics `qid query` to an XML file in the format of Touché."""
    rows = zip(topics["qid"], topics["query"], strict=True)
    body = "".join(f"<topic><number>{qid}</number><title>{escape(query)}</title></topic>\n" for qid, query in rows)
    (output / "topics.xml").write_text(f"<topics>\n{body}</topics>\n", encoding="utf-8")
