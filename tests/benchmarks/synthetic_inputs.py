"""Generate inputs of various sizes from a small input, and load, sample and describe inputs."""

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from aragorn.cache import Parts
from aragorn.io.collection import select_collection
from aragorn.io.dataset import Dataset
from aragorn.io.touche import find_corpus_files

# numbers of arguments and of distinct conclusions in args.me
ARGUMENTS = 387_740
CONCLUSIONS = 66_000


@contextmanager
def open_empty_parts():
    """Open an empty store, so that a round of a benchmark reads no results of another one."""
    with tempfile.TemporaryDirectory() as folder:
        yield Parts(Path(folder))


def load_collection(directory):
    """Load the searchable documents of an input: a frame `docno conclusion premise`."""
    return select_collection(Dataset(directory).documents)


def sample_rows(frame, n, can_repeat=False):
    """Select evenly spaced rows: exactly `n` if rows may be repeated, else at most `n`."""
    rows = np.linspace(0, len(frame) - 1, n).astype(int)
    return frame.iloc[rows if can_repeat else np.unique(rows)].reset_index(drop=True)


def sample_premises(directory, n):
    """Select at most `n` premises, evenly spaced over the collection."""
    return sample_rows(load_collection(directory), n)["premise"].tolist()


def describe_corpus(directory):
    """Describe an input's corpus by its size in GB."""
    size = sum(file.stat().st_size for file in find_corpus_files(directory))
    return f"corpus of {size / 1e9:.2f} GB"


def write_full_size(directory, output, argument_count=ARGUMENTS):
    """Write an input with the topics of a small one and generated arguments (default: as args.me).

    The premises are those of the small input, repeated; the conclusions are random words of its.
    """
    corpus = Dataset(directory).documents
    rng = np.random.default_rng(0)
    words = np.array(" ".join(corpus["conclusion"].unique()).split())
    premises = corpus["premise"].tolist()
    conclusion_count = max(1, argument_count * CONCLUSIONS // ARGUMENTS)
    conclusions = [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(conclusion_count)]

    def format_argument(row):
        title = conclusions[row % conclusion_count]
        premise = {"text": premises[row % len(premises)], "stance": "PRO", "annotations": []}
        context = {"sourceDomain": "example.org", "discussionTitle": title, "mode": "person"}
        docno = f"S{row % conclusion_count:08x}-A{row:08x}"
        argument = {"id": docno, "conclusion": title, "premises": [premise], "context": context}
        return (",\n" if row else "") + json.dumps(argument)

    output.mkdir(parents=True)
    with (output / "args-me.json").open("w", encoding="utf-8") as file:
        file.write('{"arguments": [')
        file.writelines(map(format_argument, range(argument_count)))
        file.write("]}")
    return copy_topics(directory, output)


def copy_topics(directory, output):
    """Copy the topics of an input to another one, and return it."""
    for topics in Dataset(directory).topic_files:
        shutil.copy(topics, output)
    return output


def write_json_lines(directory, output, share=1):
    """Write the topics and a random share of the arguments of an input, in JSON Lines."""
    output.mkdir(parents=True)
    sample = Dataset(directory).documents.sample(frac=share, random_state=0)
    with (output / "args-me.jsonl").open("w", encoding="utf-8") as file:
        for row in sample.itertuples(index=False):
            premises = [{"text": row.premise}]
            record = {"id": row.docno, "conclusion": row.conclusion, "premises": premises}
            file.write(json.dumps(record) + "\n")
    return copy_topics(directory, output)
