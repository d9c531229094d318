"""Tests of tagged documents: reader, errors, tables and split."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from submission.errors import InputError
from tests.conftest import REAL_DATA, read_files
from tests.unit.training.data.tagging_files import ESSAYS, WEBD, write_tagged
from training.__main__ import main
from training.data.datasets.argument_components import SOURCES, TaggedDocument, read_documents, tag_set
from training.data.tagged_documents import load_documents, split_documents

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


def test_prepare_tags_writes_tables_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, work = write_tagged(tmp_path / "data"), tmp_path / "work"
    assert main(["prepare", "tags", "-i", str(data), "--work-dir", str(work)]) == 0
    for name, source in SOURCES.items():
        assert load_documents(work, name) == read_documents(data, source)
    before = read_files(work)
    assert set(before) == {"tagging/essays.parquet", "tagging/webd.parquet", "tagging/manifest.json"}
    assert main(["prepare", "tags", "-i", str(data), "--work-dir", str(work)]) == 0
    assert read_files(work) == before
    (data / "es.txt").write_text(ESSAYS)
    assert main(["prepare", "tags", "-i", str(data), "--work-dir", str(work)]) == 5
    assert "contains files made from another input" in capsys.readouterr().err
    assert main(["prepare", "tags", "-i", str(data), "--work-dir", str(work), "--overwrite"]) == 0
    assert len(load_documents(work, "essays")) == 2
    (work / "tagging" / "essays.parquet").write_bytes(b"x")
    with pytest.raises(InputError, match=r"damaged .* delete it and run `python -m training prepare tags` again"):
        load_documents(work, "essays")
    with pytest.raises(InputError, match=r"not found; run `python -m training prepare tags -i DIR --work-dir .*none`"):
        load_documents(tmp_path / "none", "essays")


def test_tag_set_merges_the_tags_of_data_sets() -> None:
    assert tag_set(("essays",)) == ("O", "B-P", "I-P", "B-C", "I-C", "B-MC", "I-MC")
    assert tag_set(("essays", "webd")) == (*tag_set(("essays",)), "B-B", "I-B", "B-R", "I-R", "B-F", "I-F")


def test_split_keeps_train_and_test_documents_apart() -> None:
    documents = [TaggedDocument((str(n),), ("O",)) for n in range(50)]
    split = split_documents(documents, 0)
    parts = [{document.tokens[0] for document in part} for part in (split.train, split.test)]
    assert [len(part) for part in parts] == [40, 10]
    assert len(set().union(*parts)) == 50
    assert split_documents(documents, 0) == split
    assert split_documents(documents, 1).test != split.test
    smallest = split_documents(documents[:2], 0)
    assert [len(part) for part in (smallest.train, smallest.test)] == [1, 1]
    merged = split + smallest
    assert [len(part) for part in (merged.train, merged.test)] == [41, 11]


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published data are missing")
def test_reader_counts_match_the_published_files() -> None:
    counts = {}
    for name, source in SOURCES.items():
        documents = read_documents(PUBLISHED, source)
        spans = [tag for document in documents for tag in document.tags if tag.startswith("B-")]
        component_counts = {f"B-{component}": spans.count(f"B-{component}") for component in source.component_types}
        counts[name] = {"documents": len(documents), **component_counts}
    # three essays are duplicates
    assert counts["essays"]["documents"] == 399
    assert counts["webd"] == {"documents": 340, "B-P": 538, "B-C": 195, "B-B": 224, "B-R": 68, "B-F": 26}
