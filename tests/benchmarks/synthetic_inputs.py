"""Generate inputs of various sizes from a small input, and load, sample and describe inputs."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aragorn.cache import Parts, open_cache
from aragorn.engine.base import CPU
from aragorn.io.collection import select_collection
from aragorn.io.dataset import Dataset
from aragorn.io.touche import find_corpus_files, find_topic_files
from aragorn.paths import CHECKPOINT_DIR
from aragorn.pipeline.session import CheckpointStore, Session
from aragorn_training.data.retrieval import DatasetRetrieval

# numbers of arguments and of distinct conclusions in args.me
ARGUMENTS = 387_740
CONCLUSIONS = 66_000


@contextmanager
def open_retrieval(directory: Path) -> Iterator[DatasetRetrieval]:
    """Open a retrieval on an input, on the CPU and without a persistent cache."""
    with open_cache(None, directory) as cache:
        yield DatasetRetrieval(
            Dataset(directory), Session(CheckpointStore(CHECKPOINT_DIR), CPU, cache)
        )


@contextmanager
def open_empty_parts() -> Iterator[Parts]:
    """Open an empty store in a temporary directory, so that a round of a benchmark cannot read
    results of a previous one."""
    with tempfile.TemporaryDirectory() as folder:
        yield Parts(Path(folder))


def load_collection(directory: Path) -> pd.DataFrame:
    """Load the searchable documents of an input: a frame `docno conclusion premise`."""
    return select_collection(Dataset(directory).documents)


def sample_rows(frame: pd.DataFrame, n: int, can_repeat: bool = False) -> pd.DataFrame:
    """Select evenly spaced rows: exactly `n` if rows may be repeated, else at most `n`."""
    rows = np.linspace(0, len(frame) - 1, n).astype(int)
    return frame.iloc[rows if can_repeat else np.unique(rows)].reset_index(drop=True)


def sample_premises(directory: Path, n: int) -> list[str]:
    """Select at most `n` premises, evenly spaced over the collection."""
    return sample_rows(load_collection(directory), n)["premise"].tolist()


def describe_corpus(directory: Path) -> str:
    """Describe an input's corpus by its size in GB."""
    return f"corpus of {sum(file.stat().st_size for file in find_corpus_files(directory)) / 1e9:.2f} GB"


def write_full_size(directory: Path, output: Path, argument_count: int = ARGUMENTS) -> Path:
    """Write an input with generated arguments (default: the number in args.me) and the topics of a
    small input.

    The premises are those of the small input, repeated; the conclusions are random sequences of
    words from its conclusions.
    """
    corpus = Dataset(directory).documents
    rng = np.random.default_rng(0)
    words = np.array(" ".join(corpus["conclusion"].unique()).split())
    premises = corpus["premise"].tolist()
    conclusion_count = max(1, argument_count * CONCLUSIONS // ARGUMENTS)
    conclusions = [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(conclusion_count)]

    def generate_arguments() -> Iterator[dict[str, Any]]:
        for row in range(argument_count):
            debate = row % conclusion_count
            premise = premises[row % len(premises)]
            yield {
                "id": f"S{debate:08x}-A{row:08x}",
                "conclusion": conclusions[debate],
                "premises": [{"text": premise, "stance": "PRO", "annotations": []}],
                "context": {
                    "sourceDomain": "example.org",
                    "discussionTitle": conclusions[debate],
                    "mode": "person",
                },
            }

    output.mkdir(parents=True)
    with (output / "args-me.json").open("w", encoding="utf-8") as file:
        file.write('{"arguments": [')
        file.writelines(
            (",\n" if row else "") + json.dumps(argument)
            for row, argument in enumerate(generate_arguments())
        )
        file.write("]}")
    for topics in find_topic_files(directory):
        shutil.copy(topics, output)
    return output


def write_json_lines(directory: Path, output: Path, share: float = 1) -> Path:
    """Write the topics and a random share of the arguments of an input, in JSON Lines, to the new
    directory `output`."""
    output.mkdir(parents=True)
    with (output / "args-me.jsonl").open("w", encoding="utf-8") as file:
        for argument in (
            Dataset(directory).documents.sample(frac=share, random_state=0).itertuples(index=False)
        ):
            record = {
                "id": argument.docno,
                "conclusion": argument.conclusion,
                "premises": [{"text": argument.premise}],
            }
            file.write(json.dumps(record) + "\n")
    for topics in find_topic_files(directory):
        shutil.copy(topics, output)
    return output
