"""Tests of DeepCT's labels, document sets, targets and metrics, and of the reader of topics."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from submission.errors import InputError
from submission.text.index_terms import TermAnalyser
from submission.text.passages import PassageReader
from tests.conftest import build_tiny_tokenizer
from training.data.debates import read_topics
from training.data.term_weighting import find_matching_words, get_relevant_words, is_in_document_set
from training.evaluation.term_weighting import LabelledWords, term_weighting_metrics
from training.tasks.term_weighting import TrainingPassages, label_words, piece_targets

# The conclusion of Hollatz 2022, table 3.3, with a passage that has the same relevant words.
REFERENCE = "Domestic Violence Awareness should be increased"
PASSAGE = (
    "Awareness of domestic violence is low. To increase it is a duty: shelters report an increasing number of calls, and "
    "should that not be enough? Violence at home, DOMESTIC violence, is not a private matter."
)


@pytest.mark.parametrize(
    ("passage", "reference", "expected"),
    [
        (PASSAGE, REFERENCE, ["awareness", "domestic", "increase", "increasing", "violence"]),
        (PASSAGE, "", []),
        ("the should be", "The should be", []),
        ("women's rights, women-only", "Women’s right", ["rights", "women"]),
        ("naïve 東京 x1", "Naïve, 東京: X1", ["naïve", "x1", "東京"]),
    ],
)
def test_matching_words_equal_those_of_hollatz_table_3_3(passage: str, reference: str, expected: list[str]) -> None:
    assert find_matching_words(passage, reference, TermAnalyser("porter")) == expected


def test_document_sets_exclude_judged_and_pooled_arguments() -> None:
    sets = {(False, False): {"all", "unjudged", "unpooled"}, (True, False): {"all"}, (False, True): {"all", "unjudged"}}
    for (judged, pooled), expected in sets.items():
        row = {"judged": judged, "found": pooled}
        assert {name for name in ("all", "unjudged", "unpooled") if is_in_document_set(row, name)} == expected
    row = {"topic": ["a", "b"], "conclusion": ["b", "c"]}
    words = [get_relevant_words(row, name) for name in ("topic", "conclusion", "both")]
    assert words == [{"a", "b"}, {"b", "c"}, {"a", "b", "c"}]


def test_targets_are_on_the_first_word_pieces() -> None:
    passage = PassageReader(build_tiny_tokenizer(), 100, 9).encode("topic abc filler ab abcdef")
    targets = piece_targets(passage, label_words(passage, {"abc": 1.0, "abcdef": 1.0, "other": 1.0}))
    assert targets.tolist() == [0, 1, -1, -1, 0, 0, -1, 1, -1]
    examples = [(np.array(passage.piece_ids, np.int32), targets), (np.array([4], np.int32), np.array([1.0]))]
    labels = TrainingPassages.from_examples(examples).batch(np.array([1, 0]), torch.device("cpu"))[2]
    assert labels.tolist() == [[1] + [-1] * 8, targets.tolist()]


def test_metrics_match_hand_computed_values() -> None:
    passages = [
        LabelledWords(["a", "b", "a", "c"], np.array([1.0, 0, 1, 0])),
        LabelledWords(["d", "e"], np.array([0.0, 0])),
        LabelledWords(["f", "g", "h"], np.array([1.0, 0, 1])),
    ]
    weights = [np.array([0.0, 0.5, 0.5, 0.1]), np.array([0.0, 0.0]), np.array([0.9, 0.95, 0.2])]
    # First passage: a ties with b and precedes it: 1. Third: g f h, precision 1/2 and 2/3.
    squares = 1 + 0.25 + 0.25 + 0.01 + 0.01 + 0.9025 + 0.64
    expected = {
        "R²": 100 * (1 - squares / (9 * (4 / 9) * (5 / 9))),
        "MAP": 100 * (1 + (1 / 2 + 2 / 3) / 2) / 2,
        "Rprec": 100 * (1 + 1 / 2) / 2,
    }
    assert term_weighting_metrics(passages, weights) == pytest.approx(expected, abs=0.01)
    with pytest.raises(InputError, match="all words of the 1 validation passages have the same label"):
        term_weighting_metrics(passages[1:2], weights[1:2])


def write_arguments(file: Path, *contexts: object) -> Path:
    arguments = [{"id": f"{file.name}{index}", "context": context} for index, context in enumerate(contexts)]
    file.write_text(json.dumps({"arguments": arguments}), encoding="utf-8-sig")
    return file


def test_topics_fall_back_to_the_discussion_title(tmp_path: Path) -> None:
    titled = {"topic": "", "discussionTitle": "Teachers", "sourceId": "S1"}
    first = write_arguments(tmp_path / "a", {"topic": "Tenure", "discussionTitle": "Teachers"}, titled)
    second = write_arguments(tmp_path / "b", {"topic": None}, {}, None)
    assert read_topics([first, second]) == {"a0": "Tenure", "a1": "Teachers", "b0": "", "b1": "", "b2": ""}
    with pytest.raises(InputError, match=r"c: .*Expected `str \| null`, got `int`.*\$\.arguments\[1\]\.context"):
        read_topics([write_arguments(tmp_path / "c", {}, {"topic": 3})])
