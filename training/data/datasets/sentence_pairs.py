"""Read the labelled sentence pairs of BWS and MRPC and split them as Thakur et al. (2021, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from submission.errors import InputError, short
from training.data.datasets.delimited import number, rows, words

BWS = "bws/BWS_Argument_Similarity_Corpus.csv"
MRPC = ("mrpc/msr_paraphrase_train.txt", "mrpc/msr_paraphrase_test.txt")
COLUMNS = ["first", "second", "label", "topic"]
BWS_HEADER = ["id", "argument1", "argument2", "topic", "score"]
MRPC_HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]

# train, dev and test topics of the cross-topic split
TOPICS = (
    ("Cloning", "Abortion", "Minimum wage", "Marijuana legalization", "Nuclear energy"),
    ("Death penalty",),
    ("Gun control", "School uniforms"),
)
IN_TOPIC = (2471, 478, 451)  # train, dev and test pairs
PARAPHRASES = (4340, 731, 730)


@dataclass(frozen=True)
class Gold:
    """Labelled pairs `first second label topic`, split into train, dev and test."""

    name: str
    classes: bool  # labels are 0 or 1, not graded similarities in [0, 1]
    train: pd.DataFrame
    dev: pd.DataFrame
    test: pd.DataFrame


def bws_cross(directory: Path, seed: int) -> Gold:
    """Load BWS argument similarity, split by topic.

    Raises:
        InputError: If the data set is missing or malformed.
    """
    pairs = read_bws(directory / BWS)
    splits = [pairs[pairs["topic"].isin(topics)].reset_index(drop=True) for topics in TOPICS]
    return Gold("bws_cross", False, *splits)


def bws_in(directory: Path, seed: int) -> Gold:
    """Load BWS argument similarity, split at random within topics.

    Raises:
        InputError: If the data set is missing or malformed.
    """
    pairs = read_bws(directory / BWS).sample(frac=1.0, random_state=seed, ignore_index=True)
    interleaved = pairs.loc[pairs.groupby("topic").cumcount().sort_values(kind="stable").index]  # round-robin over topics
    ends = np.cumsum(_sizes(IN_TOPIC, len(pairs)))
    return Gold("bws_in", False, *(split.reset_index(drop=True) for split in _cut(interleaved, ends)))


def mrpc(directory: Path, seed: int) -> Gold:
    """Load MRPC paraphrases; no sentence occurs in two splits.

    The paper's split sizes differ from the two published files: its training split has 264 more pairs, and 267 published test
    pairs share a sentence with a training pair. Pairs that share a sentence therefore stay in one split: with any published
    training pair, in training; else dev or test at random. Surplus training pairs without shared sentences move to dev and
    test.

    Raises:
        InputError: If the data set is missing or malformed.
    """
    files = [read_mrpc(directory / file) for file in MRPC]
    pairs = pd.concat(files, ignore_index=True)
    train, dev, _ = _sizes(PARAPHRASES, len(pairs))
    group = _groups(pairs)
    size = np.bincount(group)
    rng = np.random.default_rng(seed)
    in_train = np.isin(group, group[: len(files[0])])
    singletons = np.flatnonzero(in_train & (size[group] == 1))
    in_train[rng.permutation(singletons)[: max(0, in_train.sum() - train)]] = False
    in_dev = np.zeros(len(pairs), dtype=bool)
    remaining = rng.permutation(np.unique(group[~in_train]))
    for group_id in remaining[np.argsort(-size[remaining], kind="stable")]:  # singletons last, to fill the split exactly
        if in_dev.sum() + size[group_id] <= dev:
            in_dev |= group == group_id
    masks = (in_train, in_dev, ~in_train & ~in_dev)
    return Gold("mrpc", True, *(pairs[mask].reset_index(drop=True) for mask in masks))


TASKS: dict[str, Callable[[Path, int], Gold]] = {"bws_cross": bws_cross, "bws_in": bws_in, "mrpc": mrpc}


def read_bws(file: Path) -> pd.DataFrame:
    """Read BWS argument pairs with a similarity in [0, 1].

    Raises:
        InputError: If the file is missing or a row is malformed.
    """
    topics = [topic for split in TOPICS for topic in split]
    pairs = []
    for line, row in rows(file, BWS_HEADER, ",", quoted=True):
        _, first, second, topic, score = row
        if topic not in topics:
            raise InputError(f"{file}, line {line}: topic '{short(topic)}'; expected one of {', '.join(topics)}")
        label = number(file, line, "score", score, 0, 1)
        pairs.append((words(file, line, first), words(file, line, second), label, topic))
    return pd.DataFrame(pairs, columns=COLUMNS)


def read_mrpc(file: Path) -> pd.DataFrame:
    """Read MRPC sentence pairs with label 1 (paraphrase) or 0.

    Raises:
        InputError: If the file is missing or a row is malformed.
    """
    pairs = []
    for line, row in rows(file, MRPC_HEADER, "\t", quoted=False):
        quality, _, _, first, second = row
        if quality not in ("0", "1"):
            raise InputError(f"{file}, line {line}: quality '{short(quality)}'; expected 0 or 1")
        pairs.append((words(file, line, first), words(file, line, second), float(quality), ""))
    return pd.DataFrame(pairs, columns=COLUMNS)


def _sizes(paper: Sequence[int], pairs: int) -> list[int]:
    """Scale the published split sizes to a number of pairs."""
    train, dev = (round(pairs * size / sum(paper)) for size in paper[:2])
    return [train, dev, pairs - train - dev]


def _cut(pairs: pd.DataFrame, ends: np.ndarray) -> list[pd.DataFrame]:
    return [pairs.iloc[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _groups(pairs: pd.DataFrame) -> np.ndarray:
    """Label each pair with its connected component of pairs that share sentences."""
    indices, _ = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
    first, second = np.split(indices, 2)
    graph = coo_array((np.ones(len(pairs)), (first, second)), shape=(indices.max() + 1,) * 2)
    return np.asarray(connected_components(graph, directed=False)[1][first])
