"""Tests of tagged documents, and of the labels and metrics of term weighting."""

from collections import Counter

import numpy as np
import pytest

from aragorn.errors import InputError
from aragorn.text.index_terms import TermAnalyser
from aragorn_training.data.tagged_documents import (
    SOURCES,
    TaggedDocument,
    read_documents,
    split_documents,
)
from aragorn_training.data.term_weighting import find_matching_words
from aragorn_training.evaluation.term_weighting import LabelledWords, compute_term_weighting_metrics
from tests.conftest import REAL_DATA

DOCUMENT = "-DOCSTART- -X- -X- -X- O\n\n"
ESSAY = (
    DOCUMENT
    + 'Zoos MC-B\nare MC-I\ncruel MC-I\n. O\nsmall C-B\n\nbecause O\n"?" O\nsingle-room P-B\n\'s P-I\n'
)
GOLF = DOCUMENT + "Golf P-B\nends P-I\n. O\nTaxes C-B\n"
WEBD = (
    DOCUMENT
    + f"Zoos B-B\n\ngo R-B\n\nand R-I\non F-B\n\n{DOCUMENT}{DOCUMENT}Fine P-B\n, O\nZoos C-B\n"
)
ESSAY_ROWS = 'Zoos/B-MC are/I-MC cruel/I-MC ./O small/B-C because/O "/O ?/O "/O single/B-P -/I-P room/I-P \'/I-P s/I-P'
GOLF_ROWS = "Golf/B-P ends/I-P ./O Taxes/B-C"
PUBLISHED = REAL_DATA / "tagger" / "targer"


def read(directory, data, content):
    (directory / ("es.txt" if data == "essays" else "wd.txt")).write_text(
        content, encoding="utf-8", errors="surrogateescape"
    )
    return read_documents(directory, SOURCES[data])


@pytest.mark.parametrize(("data", "content", "expected"), [
    ("essays", ESSAY + "\n" + GOLF, [ESSAY_ROWS, GOLF_ROWS]),  # punctuation is split from words
    ("essays", "-DOCSTART-\ne-Golf P-B\nends P-I\n", ["e/B-P -/I-P Golf/I-P ends/I-P"]),
    # a duplicate
    ("essays", GOLF + ESSAY + GOLF.replace("P-B\nends P-I", "O\nends O"), [GOLF_ROWS, ESSAY_ROWS]),
    # an empty document
    ("webd", WEBD, ["Zoos/B-B go/B-R and/I-R on/B-F", "Fine/B-P ,/O Zoos/B-C"]),
])  # fmt: skip
def test_reader_splits_tokens_and_drops_duplicates(tmp_path, data, content, expected):
    documents = read(tmp_path, data, content)
    rows = [zip(document.tokens, document.tags, strict=True) for document in documents]
    assert [" ".join(map("/".join, row)) for row in rows] == expected


@pytest.mark.parametrize(("old", "new", "message"), [
    ("are MC-I", "are", r"es\.txt, line 4: 1 field \(are\); expected a token and its tag"),
    ("are MC-I", "are O O", r"line 4: 3 fields"),
    ("are MC-I", "are MD-B", r"line 4: unknown tag 'MD-B'; did you mean 'MC-B'\?"),
    ("are MC-I", "are B-B", r"line 4: unknown tag 'B-B'"),
    ("are MC-I", "are C-I", r"line 4: C-I follows B-MC; a component must start with C-B"),
    ("small C-B", "small C-I", r"line 7: C-I follows O"),
    (DOCUMENT, "zoos O\n" + DOCUMENT, r"line 1: token before the first -DOCSTART-"),
    (ESSAY, "-DOCSTART- -X- O O\n", r"es\.txt: contains no documents; download it again"),
    ("are", "caf\udce9", r"es\.txt, line 4: not valid UTF-8"),
])  # fmt: skip
def test_reader_reports_the_line_of_malformed_files(tmp_path, old, new, message):
    with pytest.raises(InputError, match=r"es\.txt: cannot be read"):
        read_documents(tmp_path, SOURCES["essays"])
    with pytest.raises(InputError, match=message):
        read(tmp_path, "essays", ESSAY.replace(old, new, 1))


@pytest.mark.parametrize(("count", "sizes"), [(50, [40, 10]), (2, [1, 1])])
def test_split_keeps_train_and_test_documents_apart(count, sizes):
    documents = [TaggedDocument((str(n),), ("O",)) for n in range(count)]
    split = split_documents(documents, 0)
    parts = [{document.tokens[0] for document in part} for part in (split.train, split.test)]
    assert [len(part) for part in parts] == sizes
    assert len(set().union(*parts)) == count
    assert split_documents(documents, 0) == split
    assert any(split_documents(documents, seed).test != split.test for seed in range(1, 9))


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published data are missing")
def test_reader_counts_match_the_published_files():
    essays, webd = (read_documents(PUBLISHED, source) for source in SOURCES.values())
    assert len(essays) == 399  # three essays are duplicates
    counts = Counter(tag for document in webd for tag in document.tags if tag.startswith("B-"))
    assert (len(webd), counts) == (340, {"B-P": 538, "B-C": 195, "B-B": 224, "B-R": 68, "B-F": 26})


# The conclusion of Hollatz 2022, table 3.3, with a passage that has the same relevant words.
REFERENCE = "Domestic Violence Awareness should be increased"
PASSAGE = (
    "Awareness of domestic violence is low. To increase it is a duty: shelters report an increasing number of calls, and "
    "should that not be enough? Violence at home, DOMESTIC violence, is not a private matter."
)


@pytest.mark.parametrize(("passage", "reference", "expected"), [
    (PASSAGE, REFERENCE, ["awareness", "domestic", "increase", "increasing", "violence"]),
    (PASSAGE, "", []), ("the should be", "The should be", []),
    ("women's rights, women-only", "Women’s right", ["rights", "women"]),
    ("naïve 東京 x1", "Naïve, 東京: X1", ["naïve", "x1", "東京"]),
])  # fmt: skip
def test_matching_words_equal_those_of_hollatz_table_3_3(passage, reference, expected):
    assert find_matching_words(passage, reference, TermAnalyser("porter")) == expected


def test_metrics_match_hand_computed_values():
    passages = [LabelledWords(["a", "b", "a", "c"], np.array([1.0, 0, 1, 0]))]
    passages.append(LabelledWords(["d", "e"], np.array([0.0, 0])))
    passages.append(LabelledWords(["f", "g", "h"], np.array([1.0, 0, 1])))
    weights = [np.array([0.0, 0.5, 0.5, 0.1]), np.array([0.0, 0.0]), np.array([0.9, 0.95, 0.2])]
    # First passage: a ties with b and precedes it: 1. Third: g f h, precision 1/2 and 2/3.
    squares = 1 + 0.25 + 0.25 + 0.01 + 0.01 + 0.9025 + 0.64
    r2 = 1 - squares / (9 * (4 / 9) * (5 / 9))
    values = {"R²": r2, "MAP": (1 + (1 / 2 + 2 / 3) / 2) / 2, "Rprec": (1 + 1 / 2) / 2}
    expected = {name: 100 * value for name, value in values.items()}
    assert compute_term_weighting_metrics(passages, weights) == pytest.approx(expected, abs=0.01)
    message = "all words of the 1 validation passages have the same label"
    with pytest.raises(InputError, match=message):
        compute_term_weighting_metrics(passages[1:2], weights[1:2])
