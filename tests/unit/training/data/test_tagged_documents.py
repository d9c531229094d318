"""Tests of tagged documents: reader, errors, tables and split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from submission.errors import InputError
from tests.conftest import REAL_DATA
from training.data.datasets.argument_components import SOURCES, TaggedDocument, read_documents, tag_set
from training.data.tagged_documents import split_documents

DOCUMENT = "-DOCSTART- -X- -X- -X- O\n\n"


def to_lines(tokens: str) -> str:
    return tokens.replace(", ", "\n") + "\n"


ESSAYS = (
    DOCUMENT
    + to_lines("Should O, zoos O, close O, ? O, Zoos MC-B, are MC-I, cruel MC-I, . O, They O, are C-B, small C-I, because O")
    + to_lines('there P-B, \'s P-I, single-room P-I, housing P-I, ! O, "?" O')
    + f"\n{DOCUMENT}"
    + to_lines("Golf P-B, ends P-I, . O, Taxes C-B, rise C-I")
)
WEBD = (
    DOCUMENT
    + "\n".join(map(to_lines, ("Zoos B-B", "go R-B, on R-I", "and R-I, on F-B, . O")))
    + f"\n{DOCUMENT}{DOCUMENT}Fine P-B\n, O\nZoos C-B\n"
)
PUBLISHED = REAL_DATA / "tagger" / "targer"


def read_essays(directory: Path, essays: str = ESSAYS) -> list[TaggedDocument]:
    (directory / "es.txt").write_text(essays, encoding="utf-8", errors="surrogateescape")
    return read_documents(directory, SOURCES["essays"])


def test_reader_splits_tokens_and_drops_duplicates(tmp_path: Path) -> None:
    first, second = read_essays(tmp_path)
    rows = zip(first.tokens, first.tags, strict=True)
    assert " ".join(f"{word}/{tag}" for word, tag in rows) == (
        "Should/O zoos/O close/O ?/O Zoos/B-MC are/I-MC cruel/I-MC ./O They/O are/B-C small/I-C because/O there/B-P "
        '\'/I-P s/I-P single/I-P -/I-P room/I-P housing/I-P !/O "/O ?/O "/O'
    )
    assert second == TaggedDocument(("Golf", "ends", ".", "Taxes", "rise"), ("B-P", "I-P", "O", "B-C", "I-C"))
    [again] = read_essays(tmp_path, "-DOCSTART-\ne-Golf P-B\nends P-I\n")
    assert (again.tokens[:3], again.tags[:3]) == (("e", "-", "Golf"), ("B-P", "I-P", "I-P"))
    (tmp_path / "wd.txt").write_text(WEBD, encoding="utf-8")
    first, second = read_documents(tmp_path, SOURCES["webd"])  # components span sentences; empty documents are skipped
    assert first.tags == ("B-B", "B-R", "I-R", "I-R", "B-F", "O")
    assert second.tokens == ("Fine", ",", "Zoos")
    duplicated = ESSAYS + ESSAYS.replace("Golf P-B\nends P-I", "Golf O\nends O")
    assert read_essays(tmp_path, duplicated) == read_essays(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("zoos O", "zoos"), r"es\.txt, line 4: 1 field \(zoos\); expected a token and its tag"),
        (lambda text: text.replace("zoos O", "zoos O O"), r"line 4: 3 fields"),
        (lambda text: text.replace("zoos O", "zoos MD-B"), r"line 4: unknown tag 'MD-B'; did you mean 'MC-B'\?"),
        (lambda text: text.replace("zoos O", "zoos B-B"), r"line 4: unknown tag 'B-B'"),
        (lambda text: text.replace("zoos O", "zoos -B"), r"line 4: unknown tag '-B'"),
        (lambda text: text.replace("zoos O", "zoos P-I"), r"line 4: P-I follows O; a component must start with P-B"),
        (lambda text: text.replace("are MC-I", "are C-I"), r"line 8: C-I follows B-MC"),
        (lambda text: text.replace("Golf P-B", "Golf P-I"), r"line 24: P-I follows O"),
        (lambda text: "zoos O\n" + text, r"line 1: token before the first -DOCSTART-"),
        (lambda text: "-DOCSTART- -X- O O\n", r"es\.txt: contains no documents; download it again"),
        (lambda text: text + "caf\udce9 O\n", r"es\.txt, line 29: not valid UTF-8"),
    ],
)
def test_reader_reports_the_line_of_malformed_files(tmp_path: Path, change: Callable[[str], str], message: str) -> None:
    with pytest.raises(InputError, match=r"es\.txt: cannot be read"):
        read_documents(tmp_path, SOURCES["essays"])
    with pytest.raises(InputError, match=message):
        read_essays(tmp_path, change(ESSAYS))


def test_tag_set_merges_the_tags_of_data_sets() -> None:
    assert tag_set(("essays",)) == ("O", "B-P", "I-P", "B-C", "I-C", "B-MC", "I-MC")
    assert tag_set(("essays", "webd")) == (*tag_set(("essays",)), "B-B", "I-B", "B-R", "I-R", "B-F", "I-F")


@pytest.mark.parametrize(("count", "sizes"), [(50, [40, 10]), (2, [1, 1])])
def test_split_keeps_train_and_test_documents_apart(count: int, sizes: list[int]) -> None:
    documents = [TaggedDocument((str(n),), ("O",)) for n in range(count)]
    split = split_documents(documents, 0)
    parts = [{document.tokens[0] for document in part} for part in (split.train, split.test)]
    assert [len(part) for part in parts] == sizes
    assert len(set().union(*parts)) == count
    assert split_documents(documents, 0) == split
    assert any(split_documents(documents, seed).test != split.test for seed in range(1, 9))
    assert [len(part) for part in ((split + split).train, (split + split).test)] == [2 * size for size in sizes]


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published data are missing")
def test_reader_counts_match_the_published_files() -> None:
    essays, webd = (read_documents(PUBLISHED, source) for source in SOURCES.values())
    assert len(essays) == 399  # three essays are duplicates
    counts = Counter(tag for document in webd for tag in document.tags if tag.startswith("B-"))
    assert (len(webd), counts) == (340, {"B-P": 538, "B-C": 195, "B-B": 224, "B-R": 68, "B-F": 26})
