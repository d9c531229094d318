"""Tests of what all readers share: ids, archives, and JSON Lines."""

import gzip
import pickle
import re

import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn.io import tirex, touche
from aragorn.io.dataset import Dataset
from aragorn.io.files import is_invalid_id
from aragorn.io.formats import refuse_format
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import find_run, read_run
from aragorn.search.inputs import build_topics
from aragorn_training.evaluation.overlap import read_docnos
from aragorn_training.evaluation.similarity import list_runs
from tests.conftest import PREMISE

INVALID = {
    "space": " ", "no-break space": "\u00a0", "ideographic space": "\u3000", "line separator": "\u2028", "null": "\0",
    "C1 control": "\x85", "delete": "\x7f", "soft hyphen": "\u00ad", "zero-width space": "\u200b", "joiner": "\u200d",
    "word joiner": "\u2060", "mark of direction": "\u202e", "Arabic letter mark": "\u061c", "byte order mark": "\ufeff",
    "annotation anchor": "\ufff9", "tag A": "\U000e0041", "variation selector": "\ufe0f", "selector 17": "\U000e0100",
    "grapheme joiner": "\u034f", "Hangul filler": "\u3164", "Mongolian selector": "\u180b", "musical format": "\U0001d173",
    "Braille blank": "\u2800", "object replacement": "\ufffc", "musical null": "\U0001d159",
    "reserved for marks": "\u2065", "reserved for specials": "\ufff0", "reserved tag": "\U000e0002",
    "reserved selector": "\U000e0fff", "noncharacter": "\ufdd0", "reversed byte order mark": "\ufffe",
    "last code point": "\U0010ffff",
}  # fmt: skip
# the last two: private use, unassigned
VALID = ("a", "ä", "a\u0301", "東京", "а", "😀", "#1", "~!", "١", "x" * 300, "\ue000", "\u0378")  # noqa: RUF001 Cyrillic a


@pytest.mark.parametrize("name", INVALID)
def test_invisible_characters_are_invalid_in_ids(name):
    character = INVALID[name]
    actual = [is_invalid_id(text) for text in (character, f"{character}a", f"a{character}é")]
    assert actual == [True] * 3


def test_visible_ids_are_valid():
    assert [identifier for identifier in VALID if is_invalid_id(identifier)] == []
    assert is_invalid_id("")


READERS = {  # content with an id; reader
    "topics": (
        "<t><topic><number>{}</number><title>x</title></topic></t>",
        lambda file: touche.read_topics([file]),
    ),
    "args.me": (
        f'{{{{"arguments": [{{{{"id": "{{}}", "conclusion": "c", "premises": [{{{{"text": "{PREMISE}"}}}}]}}}}]}}}}',
        lambda file: touche.read_documents([file]),
    ),
    "queries": ('{{"qid": "{}", "query": "x"}}', lambda file: [*tirex.read_queries(file)]),
    "documents": ('{{"docno": "{}", "text": "x"}}', lambda file: [*tirex.read_documents(file)]),
    "qids of a run": ("{} Q0 a 1 1 t", read_run),
    "docnos of a run": ("1 Q0 {} 1 1 t", read_run),
    "qids of qrels": ("{} 0 a 1", read_qrels),
    "docnos of qrels": ("1 0 {} 1", read_qrels),
    "list of docnos": ("{}", read_docnos),
    "data frame": (
        "{}",
        lambda file: build_topics(pd.DataFrame({"qid": [file.read_text()], "query": ["x"]})),
    ),
}  # fmt: skip


@pytest.mark.parametrize("character", ["\x1f", "\u00ad", "\ufe0f", "\U000e0041"])
@pytest.mark.parametrize("name", READERS)
def test_all_readers_have_the_same_rule_of_ids(name, character, tmp_path):
    content, read = READERS[name]
    file = tmp_path / "file"
    file.write_text(content.format("7é"))
    read(file)
    file.write_text(content.format(f"7{character}"))
    with pytest.raises(
        InputError, match=r"without whitespace or (invisible|control) characters|malformed"
    ):
        read(file)


OTHER_FORMATS = {  # first bytes; description and remedy
    "LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS, not .*; fetch the file"),
    "HTML": (b"\n<!DOCTYPE html>\n<html><body>404", "an HTML page, not .*; download the file itself"),
    "XHTML": (b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a\nb -->\n<!DOCTYPE html>', "an HTML page, not"),
    "HTML without type": (b"<HTML lang=en>", "an HTML page, not"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3", "a PDF document, not .*; export it as text"),
    "RTF": (rb"{\rtf1\ansi 1 Q0 a 1 1 t}", "an RTF document, not .*; save it as plain text"),
    "XLSX": (b"PK\3\4\x14\0\6\0\x08\0\0\0!\0" + bytes(16) + b"[Content_Types].xml", "an Office document, not"),
    "XLS": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document, not"),
    "zip": (b"PK\3\4\x14\0\0\0\x08\0\0\0!\0" + bytes(16) + b"run.txt", "a zip archive, not .*; unpack it"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive, not"),
    "RAR": (b"Rar!\x1a\7\1\0", "a RAR archive, not"),
    "tar": (b"run.txt".ljust(257, b"\0") + b"ustar  \0", "a tar archive, not .*; unpack it"),
    "tar.gz": (gzip.compress(b"run.txt".ljust(257, b"\0") + b"ustar\00000"), "a tar archive, not .*; unpack it"),
    "gzip twice": (gzip.compress(gzip.compress(b"1 Q0 a 1 1 t")), "compressed twice, not"),
    "xz": (b"\xfd7zXZ\0\0\4", "compressed by xz, bzip2 or Zstandard, not .*; decompress it"),
    "Zstandard": (b"\x28\xb5\x2f\xfd\0", "compressed by xz, bzip2 or Zstandard, not"),
    "Parquet": (b"PAR1\x15\4\x15", "a Parquet or Arrow table, not .*; export it as text"),
    "pickle": (pickle.dumps({"1": {"a": 1.5}}), "a pickle of Python, not .*; export it as text"),
    **{f"pickle {protocol} {name}": (pickle.dumps(value, protocol), "a pickle of Python, not") for protocol in range(6)
       for name, value in (("frame", pd.DataFrame({"a": [1]})), ("dict", {"a": 1}), ("list", [1]))},
    "NumPy": (b"\x93NUMPY\1\0", "a NumPy, HDF5 or SQLite file, not"),
    "SQLite": (b"SQLite format 3\0", "a NumPy, HDF5 or SQLite file, not"),
}  # fmt: skip
FORMAT_READERS = {
    "topics.xml": lambda file: [*touche.read_topics_xml(file)],
    "args-me.json": lambda file: touche.read_documents([file]),
    "idebate.jsonl": lambda file: touche.read_documents([file]),
    "queries.jsonl": lambda file: [*tirex.read_queries(file)],
    "run.txt": read_run,
    "q.qrels": read_qrels,
}


@pytest.mark.parametrize("name", FORMAT_READERS)
def test_files_of_other_programs_are_named_with_a_remedy(name, tmp_path):
    file = tmp_path / name
    for content, message in OTHER_FORMATS.values():
        for suffix in ("", ".gz"):
            path = file.with_name(f"{name}{suffix}")
            path.write_bytes(content)
            with pytest.raises(InputError, match=f"{path}: {message}"):
                raise AssertionError(f"{content!r}: {FORMAT_READERS[name](path)}")
    for content in (b"PAR1 0 a 1\n", b"7z Q0 a 1 1 t\n", b"PAR1\tQ0\ta\t1\t1\tt\n"):
        refuse_format(tmp_path, content)


OTHER_TEXTS = {"XML": "<t><a/></t>", "JSON": '{"a": 1}', "YAML": "---\na: 1\n", "YAML ": "topics:\n- 1\n",
               "CSV": "id,conclusion,premise\na,b,c\n", "separated by |": "1 | a | 2\n"}  # fmt: skip


@pytest.mark.parametrize("name", FORMAT_READERS)
def test_texts_of_other_formats_are_named(name, tmp_path):
    file = tmp_path / name
    expected_format = {".xml": "XML", ".json": "JSON", ".jsonl": "JSON"}.get(file.suffix)
    for kind, content in OTHER_TEXTS.items():
        if kind != expected_format:
            file.write_text(content)
            with pytest.raises(
                InputError, match=f"; this is {re.escape(kind.strip())}: convert it"
            ):
                raise AssertionError(f"{kind}: {FORMAT_READERS[name](file)}")


@pytest.mark.parametrize("name", ["XLSX", "PDF", "tar.gz", "Parquet"])
def test_other_formats_as_input_are_named(name, tmp_path):
    content, message = OTHER_FORMATS[name]
    (tmp_path / f"data.{name}").write_bytes(content)
    with pytest.raises(InputError, match=message):
        Dataset(tmp_path / f"data.{name}")


def test_topic_files_of_two_years_may_have_the_same_name(tmp_path):
    for year, qid in (("2020", 1), ("2021", 51)):
        (tmp_path / year).mkdir()
        topic = f"<t><topic><number>{qid}</number><title>x</title></topic></t>"
        (tmp_path / year / "topics.xml").write_text(topic)
    (tmp_path / "2020" / "idebate.jsonl").write_text("")
    dataset = Dataset(tmp_path / "2020", tmp_path / "2021" / "topics.xml")
    assert dataset.topics["qid"].tolist() == ["1", "51"]
    assert dataset.description.endswith("; topics of 2 files together")
    assert [*dataset.file_hashes] == ["topics.xml", "topics.xml (2)", "idebate.jsonl"]


def test_loop_of_links_is_called_unreadable_not_missing(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match=r"no run found \(.*symbolic links.*\); expected a run"):
        find_run(loop)
    with pytest.raises(InputError, match=f"^{loop}: cannot be read .*symbolic links"):
        list_runs(loop)
    with pytest.raises(InputError, match=f"^{tmp_path / 'x'}: cannot be read .No such file"):
        list_runs(tmp_path / "x")
