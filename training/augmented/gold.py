"""The labelled sentence pairs of the paper (Thakur et al. 2021, section 4.1) and their division into training, dev and test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from submission.errors import InputError, short
from training.data.rows import number, rows, words

BWS = "bws/BWS_Argument_Similarity_Corpus.csv"
MRPC = ("mrpc/msr_paraphrase_train.txt", "mrpc/msr_paraphrase_test.txt")
COLUMNS = ["first", "second", "label", "topic"]
BWS_HEADER = ["id", "argument1", "argument2", "topic", "score"]
MRPC_HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]

# Which topics train, choose and test across topics.
TOPICS = (
    ("Cloning", "Abortion", "Minimum wage", "Marijuana legalization", "Nuclear energy"),
    ("Death penalty",),
    ("Gun control", "School uniforms"),
)
IN_TOPIC = (2471, 478, 451)  # pairs that train, choose and test
PARAPHRASES = (4340, 731, 730)


@dataclass(frozen=True)
class Gold:
    """Labelled pairs, `first second label topic` each; no sentence of one part is in another where the paper had it so."""

    name: str
    classes: bool  # whether labels are 0 and 1, and no degrees of likeness from 0 to 1
    train: pd.DataFrame
    dev: pd.DataFrame
    test: pd.DataFrame


def bws_cross(directory: Path, seed: int) -> Gold:
    """Arguments by their likeness; the topics that test are never seen before. Raises InputError."""
    pairs = read_bws(directory / BWS)
    parts = [pairs[pairs["topic"].isin(topics)].reset_index(drop=True) for topics in TOPICS]
    return Gold("bws_cross", False, *parts)


def bws_in(directory: Path, seed: int) -> Gold:
    """Arguments by their likeness; each part has random pairs of every topic, about as many of each. Raises InputError."""
    pairs = read_bws(directory / BWS).sample(frac=1.0, random_state=seed, ignore_index=True)
    dealt = pairs.loc[pairs.groupby("topic").cumcount().sort_values(kind="stable").index]  # one of each topic in turn
    ends = np.cumsum(_sizes(IN_TOPIC, len(pairs)))
    return Gold("bws_in", False, *(part.reset_index(drop=True) for part in _cut(dealt, ends)))


def mrpc(directory: Path, seed: int) -> Gold:
    """News sentences that say the same, or not; no sentence is in two parts. Raises InputError.

    The paper's sizes are not those of the two published files: its training part has 264 pairs more, and 267 published test
    pairs share a sentence with a training pair. So pairs that share a sentence stay together: with a published training pair
    they train; the others are dev and test, at random. As this gives a few training pairs too many, random ones that share no
    sentence go to dev and test too.
    """
    published = [read_mrpc(directory / file) for file in MRPC]
    pairs = pd.concat(published, ignore_index=True)
    train, dev, _ = _sizes(PARAPHRASES, len(pairs))
    group = _groups(pairs)
    size = np.bincount(group)
    rng = np.random.default_rng(seed)
    trains = np.isin(group, group[: len(published[0])])
    single = np.flatnonzero(trains & (size[group] == 1))
    trains[rng.permutation(single)[: max(0, trains.sum() - train)]] = False
    chooses = np.zeros(len(pairs), dtype=bool)
    others = rng.permutation(np.unique(group[~trains]))
    for its in others[np.argsort(-size[others], kind="stable")]:  # single pairs last: they fill the part up
        if chooses.sum() + size[its] <= dev:
            chooses |= group == its
    parts = (trains, chooses, ~trains & ~chooses)
    return Gold("mrpc", True, *(pairs[part].reset_index(drop=True) for part in parts))


TASKS: dict[str, Callable[[Path, int], Gold]] = {"bws_cross": bws_cross, "bws_in": bws_in, "mrpc": mrpc}


def read_bws(file: Path) -> pd.DataFrame:
    """BWS Argument Similarity: pairs of arguments with a likeness from 0 to 1. Raises InputError."""
    known = [topic for topics in TOPICS for topic in topics]
    pairs = []
    for line, row in rows(file, BWS_HEADER, ",", quoted=True):
        _, first, second, topic, score = row
        if topic not in known:
            raise InputError(f"{file}, line {line}: topic '{short(topic)}'; expected one of {', '.join(known)}")
        label = number(file, line, "score", score, 0, 1)
        pairs.append((words(file, line, first), words(file, line, second), label, topic))
    return pd.DataFrame(pairs, columns=COLUMNS)


def read_mrpc(file: Path) -> pd.DataFrame:
    """The Microsoft Research Paraphrase Corpus: pairs of sentences with 1 (paraphrases) or 0. Raises InputError."""
    pairs = []
    for line, row in rows(file, MRPC_HEADER, "\t", quoted=False):
        quality, _, _, first, second = row
        if quality not in ("0", "1"):
            raise InputError(f"{file}, line {line}: quality '{short(quality)}'; expected 0 or 1")
        pairs.append((words(file, line, first), words(file, line, second), float(quality), ""))
    return pd.DataFrame(pairs, columns=COLUMNS)


def _sizes(paper: Sequence[int], pairs: int) -> list[int]:
    """The paper's sizes; of another number of pairs, in their proportion."""
    train, dev = (round(pairs * part / sum(paper)) for part in paper[:2])
    return [train, dev, pairs - train - dev]


def _cut(pairs: pd.DataFrame, ends: np.ndarray) -> list[pd.DataFrame]:
    return [pairs.iloc[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _groups(pairs: pd.DataFrame) -> np.ndarray:
    """A number for each pair, the same for pairs that share a sentence, directly or by others."""
    numbers, _ = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
    first, second = np.split(numbers, 2)
    graph = coo_array((np.ones(len(pairs)), (first, second)), shape=(numbers.max() + 1,) * 2)
    return np.asarray(connected_components(graph, directed=False)[1][first])
