"""Read the sentence pairs of BWS and MRPC and split them as in Thakur et al. 2021, section 4.1."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from aragorn.errors import abbreviate
from aragorn_training.data.datasets.delimited import read_rows

BWS_FILE = "bws/BWS_Argument_Similarity_Corpus.csv"
MRPC_FILES = ("mrpc/msr_paraphrase_train.txt", "mrpc/msr_paraphrase_test.txt")
COLUMNS = ["first", "second", "label", "topic"]
BWS_HEADER = ["id", "argument1", "argument2", "topic", "score"]
MRPC_HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]

# train, dev and test topics of the cross-topic split
CROSS_TOPIC_SPLITS = (
    ("Cloning", "Abortion", "Minimum wage", "Marijuana legalization", "Nuclear energy"),
    ("Death penalty",),
    ("Gun control", "School uniforms"),
)
BWS_SPLIT_SIZES = (2471, 478, 451)  # train, dev and test pairs
MRPC_SPLIT_SIZES = (4340, 731, 730)


@dataclass(frozen=True)
class PairDataset:
    """Labelled pairs `first second label topic`, split into train, dev and test."""

    name: str
    is_binary: bool  # labels are 0 or 1, not graded similarities in [0, 1]
    train: pd.DataFrame
    dev: pd.DataFrame
    test: pd.DataFrame


def load_bws_cross_topic(directory: Path, seed: int) -> PairDataset:
    """Load the argument pairs of BWS, split by CROSS_TOPIC_SPLITS; `seed` has no effect."""
    pairs = read_bws(directory / BWS_FILE)
    splits = [
        pairs[pairs["topic"].isin(topics)].reset_index(drop=True) for topics in CROSS_TOPIC_SPLITS
    ]
    return PairDataset("bws_cross", False, *splits)


def load_bws_in_topic(directory: Path, seed: int) -> PairDataset:
    """Load the argument pairs of BWS, shuffled, dealt round-robin over topics and split."""
    pairs = read_bws(directory / BWS_FILE).sample(frac=1.0, random_state=seed, ignore_index=True)
    # round-robin over topics
    mixed_pairs = pairs.loc[pairs.groupby("topic").cumcount().sort_values(kind="stable").index]
    ends = np.cumsum([0, *_scale_sizes(BWS_SPLIT_SIZES, len(pairs))])
    splits = [
        mixed_pairs.iloc[start:end].reset_index(drop=True)
        for start, end in itertools.pairwise(ends)
    ]
    return PairDataset("bws_in", False, *splits)


def load_mrpc(directory: Path, seed: int) -> PairDataset:
    """Load the sentence pairs of MRPC, split so that no sentence occurs in two splits.

    The splits of Thakur et al. 2021 differ from the published files: their training split has 264
    more pairs, and 267 published test pairs share a sentence with a training pair. Pairs that share
    a sentence therefore stay in one split: training if any of them is a published training pair,
    else dev or test at random. Surplus training pairs without shared sentences move to dev and
    test.
    """
    files = [read_mrpc(directory / file) for file in MRPC_FILES]
    pairs = pd.concat(files, ignore_index=True)
    train, dev, _ = _scale_sizes(MRPC_SPLIT_SIZES, len(pairs))
    group = _find_components(pairs)
    size = np.bincount(group)
    rng = np.random.default_rng(seed)
    is_training = np.isin(group, group[: len(files[0])])
    singletons = np.flatnonzero(is_training & (size[group] == 1))
    is_training[rng.permutation(singletons)[: max(0, is_training.sum() - train)]] = False
    in_dev = np.zeros(len(pairs), dtype=bool)
    groups = rng.permutation(np.unique(group[~is_training]))
    # singletons last, to fill the split exactly
    for group_id in groups[np.argsort(-size[groups], kind="stable")]:
        if in_dev.sum() + size[group_id] <= dev:
            in_dev |= group == group_id
    masks = (is_training, in_dev, ~is_training & ~in_dev)
    return PairDataset("mrpc", True, *(pairs[mask].reset_index(drop=True) for mask in masks))


Loader = Callable[[Path, int], PairDataset]  # takes the data directory and a seed
LOADERS: dict[str, Loader] = {
    "bws_cross": load_bws_cross_topic,
    "bws_in": load_bws_in_topic,
    "mrpc": load_mrpc,
}


def read_bws(file: Path) -> pd.DataFrame:
    """Read the argument pairs of BWS as COLUMNS; the label is the similarity in [0, 1]."""
    topics = [topic for split in CROSS_TOPIC_SPLITS for topic in split]
    pairs = []
    for row in read_rows(file, BWS_HEADER, ",", has_quotes=True):
        topic = row.texts["topic"]
        if topic not in topics:
            expected = f"expected one of {', '.join(topics)}"
            raise row.build_error(f"unknown topic '{abbreviate(topic)}'", expected)
        texts = (row.get_text("argument1"), row.get_text("argument2"))
        pairs.append((*texts, row.get_number("score", 0, 1), topic))
    return pd.DataFrame(pairs, columns=COLUMNS)


def read_mrpc(file: Path) -> pd.DataFrame:
    """Read the sentence pairs of MRPC as COLUMNS; the label is 1 or 0, the topic ""."""
    pairs = []
    for row in read_rows(file, MRPC_HEADER, "\t", has_quotes=False):
        quality = row.texts["Quality"]
        if quality not in ("0", "1"):
            raise row.build_error(f"invalid quality '{abbreviate(quality)}'", "expected 0 or 1")
        texts = (row.get_text("#1 String"), row.get_text("#2 String"))
        pairs.append((*texts, float(quality), ""))
    return pd.DataFrame(pairs, columns=COLUMNS)


def _scale_sizes(published_sizes: Sequence[int], n_pairs: int) -> list[int]:
    """Scale the published sizes of train, dev and test to `n_pairs` pairs in all."""
    train, dev = (round(n_pairs * size / sum(published_sizes)) for size in published_sizes[:2])
    return [train, dev, n_pairs - train - dev]


def _find_components(pairs: pd.DataFrame) -> np.ndarray:
    """Return each pair's connected component, by number; pairs with a common sentence connect."""
    indices, _ = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
    first, second = np.split(indices, 2)
    graph = coo_array((np.ones(len(pairs)), (first, second)), shape=(indices.max() + 1,) * 2)
    return np.asarray(connected_components(graph, directed=False)[1][first])
