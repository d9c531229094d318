"""Tests of the readers and splits of BWS and MRPC."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from submission.errors import InputError
from tests.conftest import REAL_DATA
from tests.unit.training.conftest import write_bws, write_mrpc
from training.data.datasets.sentence_pairs import (
    CROSS_TOPIC_SPLITS,
    LOADERS,
    PairDataset,
    load_bws_cross_topic,
    load_bws_in_topic,
    load_mrpc,
    read_bws,
    read_mrpc,
)

SIMILARITY = REAL_DATA / "similarity"


def sentences(pairs: pd.DataFrame) -> set[str]:
    return {*pairs["first"], *pairs["second"]}


def splits(gold: PairDataset) -> list[pd.DataFrame]:
    return [gold.train, gold.dev, gold.test]


def test_readers_accept_the_published_formats(tmp_path: Path) -> None:
    pairs = read_bws(write_bws(tmp_path))
    assert pairs.columns.tolist() == ["first", "second", "label", "topic"]
    assert len(pairs) == 80
    assert pairs.iloc[0]["first"].endswith(", Cloning 1")  # without quotes and surplus spaces
    assert pairs["topic"].value_counts().tolist() == [10] * 8
    assert pairs["label"].between(0, 1).all()
    assert pairs["label"].nunique() > 3
    gold = load_bws_cross_topic(tmp_path, 0)  # no topic is in two splits
    assert [set(split["topic"]) for split in splits(gold)] == [set(topics) for topics in CROSS_TOPIC_SPLITS]
    assert [len(split) for split in splits(gold)] == [50, 10, 20]
    assert not gold.is_binary
    train, test = (read_mrpc(file) for file in write_mrpc(tmp_path))
    assert (len(train), len(test)) == (66, 24)
    assert train["label"].tolist() == [float(n % 3 > 0) for n in range(66)]
    assert train["second"][2].endswith('said "2')  # quotation marks are part of the text
    with pytest.raises(InputError, match=r"bws/BWS_Argument_Similarity_Corpus\.csv: cannot be read"):
        load_bws_cross_topic(tmp_path / "none", 0)


def test_in_topic_splits_contain_every_topic(tmp_path: Path) -> None:
    file = write_bws(tmp_path, 40)
    gold = load_bws_in_topic(tmp_path, 0)
    assert [len(split) for split in splits(gold)] == [233, 45, 42]  # 320 pairs in the ratio 2471 : 478 : 451
    for split in splits(gold):
        counts = split["topic"].value_counts()
        assert len(counts) == 8
        assert counts.max() - counts.min() <= 1
    assert pd.concat(splits(gold)).sort_values("first")["first"].tolist() == sorted(read_bws(file)["first"])
    assert load_bws_in_topic(tmp_path, 0).train.equals(gold.train)
    assert not load_bws_in_topic(tmp_path, 1).train.equals(gold.train)


def test_mrpc_splits_share_no_sentence(tmp_path: Path) -> None:
    files = write_mrpc(tmp_path)
    gold = load_mrpc(tmp_path, 0)
    assert [len(split) for split in splits(gold)] == [67, 11, 12]  # 90 pairs in the ratio 4340 : 731 : 730
    for first, second in combinations(splits(gold), 2):
        assert not sentences(first) & sentences(second)
    published, moved = (read_mrpc(file) for file in files)
    assert {*moved["second"][[3]], *moved["first"][[4]]} <= sentences(gold.train)  # they share a sentence with training
    assert len(pd.concat([*splits(gold), published, moved]).drop_duplicates(["first", "second"])) == 90
    assert gold.is_binary
    assert load_mrpc(tmp_path, 0).dev.equals(gold.dev)
    assert not load_mrpc(tmp_path, 1).dev.equals(gold.dev)


@pytest.mark.skipif(not SIMILARITY.is_dir(), reason="the published data are missing")
@pytest.mark.parametrize(
    ("task", "sizes"), [("bws_cross", [2125, 425, 850]), ("bws_in", [2471, 478, 451]), ("mrpc", [4340, 731, 730])]
)
def test_split_sizes_match_thakur_et_al(task: str, sizes: list[int]) -> None:
    gold = LOADERS[task](SIMILARITY, 0)
    assert [len(split) for split in splits(gold)] == sizes
    if task != "bws_in":
        for first, second in combinations(splits(gold), 2):
            assert not sentences(first) & sentences(second)
