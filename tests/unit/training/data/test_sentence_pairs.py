"""The readers of BWS and MRPC, and how their pairs are divided."""

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


def sentences(part: pd.DataFrame) -> set[str]:
    return {*part["first"], *part["second"]}


def parts(gold: PairDataset) -> list[pd.DataFrame]:
    return [gold.train, gold.dev, gold.test]


def test_published_files_are_read(tmp_path: Path) -> None:
    pairs = read_bws(write_bws(tmp_path))
    assert pairs.columns.tolist() == ["first", "second", "label", "topic"]
    assert len(pairs) == 80
    assert pairs.iloc[0]["first"].endswith(", Cloning 1")  # quotes taken off, blanks too
    assert pairs["topic"].value_counts().tolist() == [10] * 8
    assert pairs["label"].between(0, 1).all()
    assert pairs["label"].nunique() > 3
    gold = load_bws_cross_topic(tmp_path, 0)  # across topics no topic is in two parts
    assert [set(part["topic"]) for part in parts(gold)] == [set(topics) for topics in CROSS_TOPIC_SPLITS]
    assert [len(part) for part in parts(gold)] == [50, 10, 20]
    assert not gold.is_binary
    train, test = (read_mrpc(file) for file in write_mrpc(tmp_path))
    assert (len(train), len(test)) == (66, 24)
    assert train["label"].tolist() == [float(number % 3 > 0) for number in range(66)]
    assert train["second"][2].endswith('said "2')  # a single quote is a character like others
    with pytest.raises(InputError, match=r"bws/BWS_Argument_Similarity_Corpus\.csv: cannot be read"):
        load_bws_cross_topic(tmp_path / "none", 0)


def test_in_topic_every_part_has_every_topic(tmp_path: Path) -> None:
    file = write_bws(tmp_path, 40)
    gold = load_bws_in_topic(tmp_path, 0)
    assert [len(part) for part in parts(gold)] == [233, 45, 42]  # 320 pairs in the proportion of 2471, 478, 451
    for part in parts(gold):
        counts = part["topic"].value_counts()
        assert len(counts) == 8
        assert counts.max() - counts.min() <= 1
    assert pd.concat(parts(gold)).sort_values("first")["first"].tolist() == sorted(read_bws(file)["first"])
    assert load_bws_in_topic(tmp_path, 0).train.equals(gold.train)
    assert not load_bws_in_topic(tmp_path, 1).train.equals(gold.train)


def test_mrpc_shares_no_sentence_between_parts(tmp_path: Path) -> None:
    files = write_mrpc(tmp_path)
    gold = load_mrpc(tmp_path, 0)
    assert [len(part) for part in parts(gold)] == [67, 11, 12]  # 90 pairs in the proportion of 4340, 731, 730
    for one, other in combinations(parts(gold), 2):
        assert not sentences(one) & sentences(other)
    published, moved = (read_mrpc(file) for file in files)
    assert {*moved["second"][[3]], *moved["first"][[4]]} <= sentences(gold.train)  # with the sentence that they share
    assert len(pd.concat([*parts(gold), published, moved]).drop_duplicates(["first", "second"])) == 90
    assert gold.is_binary
    assert load_mrpc(tmp_path, 0).dev.equals(gold.dev)
    assert not load_mrpc(tmp_path, 1).dev.equals(gold.dev)


@pytest.mark.skipif(not SIMILARITY.is_dir(), reason="the real data is not beside this checkout")
@pytest.mark.parametrize(
    ("task", "sizes"), [("bws_cross", [2125, 425, 850]), ("bws_in", [2471, 478, 451]), ("mrpc", [4340, 731, 730])]
)
def test_the_sizes_are_the_paper_s(task: str, sizes: list[int]) -> None:
    gold = LOADERS[task](SIMILARITY, 0)
    assert [len(part) for part in parts(gold)] == sizes
    if task != "bws_in":
        for one, other in combinations(parts(gold), 2):
            assert not sentences(one) & sentences(other)
