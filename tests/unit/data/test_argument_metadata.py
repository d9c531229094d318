from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from submission.data.argument_metadata import DATABASE_FILE, ArgumentMetadata, MetadataStore, open_metadata
from submission.errors import OutputError
from submission.search.corpus import Corpus
from submission.storage.cache_directory import CacheDirectory
from tests.conftest import SAMPLE, make_argument


def with_stances(docno: str, *stances: Any, **context: Any) -> dict[str, Any]:
    premises = [{"text": f"a premise of {docno}", "stance": stance} for stance in stances]
    return {**make_argument(docno), "premises": premises, "context": context}


@pytest.fixture
def open_corpus(tmp_path: Path) -> Callable[[dict[str, str]], MetadataStore]:
    """Return a function that writes corpus files and opens their metadata."""

    def write_and_open(contents: dict[str, str]) -> MetadataStore:
        for name, text in contents.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        with CacheDirectory(tmp_path / "work", tmp_path) as cache:
            corpus = Corpus.from_directory(tmp_path)
            return open_metadata(corpus.args_me_files, corpus.corpus_fingerprint, cache)

    return write_and_open


def test_stance_and_portal_of_args_me(open_corpus: Callable[[dict[str, str]], MetadataStore]) -> None:
    arguments = [
        with_stances("a", "PRO", sourceDomain="debate.org"),
        with_stances("b", "CON", "CON", sourceDomain="parliament.example.org"),
        with_stances("c", "PRO", "CON"),
        with_stances("d", None, sourceDomain=None),
        with_stances("e", "<b>", sourceDomain=7),
        with_stances("f"),
    ]
    metadata = open_corpus({"args-me.json": json.dumps({"arguments": arguments})})
    assert metadata.get(["a", "b", "c", "d", "e", "f", "unknown"]) == {
        "a": ArgumentMetadata("PRO", "debate.org"), "b": ArgumentMetadata("CON", "parliament.example.org"),
        "c": ArgumentMetadata(), "d": ArgumentMetadata(), "e": ArgumentMetadata(), "f": ArgumentMetadata(),
    }  # fmt: skip


def test_portal_from_file_name(open_corpus: Callable[[dict[str, str]], MetadataStore]) -> None:
    text = "\ufeff" + json.dumps({"arguments": [with_stances("a", "PRO", sourceDomain="www.example.org")]})
    assert open_corpus({"idebate.json": text}).get(["a"]) == {"a": ArgumentMetadata("PRO", "idebate")}


def test_metadata_of_json_lines(open_corpus: Callable[[dict[str, str]], MetadataStore]) -> None:
    """In args.me, premises have the stances; in the Hugging Face copy, arguments have them."""
    hugging_face_record = {"id": "b", "conclusion": "c", "argument": "text", "stance": "CON"}
    lines = [with_stances("a", "PRO", sourceDomain="debate.org"), hugging_face_record]
    metadata = open_corpus({"args-me.jsonl": "".join(json.dumps(line) + "\n" for line in lines)})
    assert metadata.get(["a", "b"]) == {"a": ArgumentMetadata("PRO", "debate.org"), "b": ArgumentMetadata("CON", "")}


def test_malformed_file_has_no_metadata(
    open_corpus: Callable[[dict[str, str]], MetadataStore], caplog: pytest.LogCaptureFixture
) -> None:
    good = json.dumps({"arguments": [with_stances("a", "CON")]})
    metadata = open_corpus({"idebate.json": good, "debateorg.json": good.replace('"CON"}]', '"CON"}], "x": [')})
    assert metadata.get(["a"]) == {"a": ArgumentMetadata("CON", "idebate")}
    assert "debateorg.json: cannot read stances and portals" in caplog.text


def test_metadata_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus.from_directory(SAMPLE)
    with CacheDirectory(tmp_path / "work", tmp_path) as cache:
        first = open_metadata(corpus.args_me_files, corpus.corpus_fingerprint, cache).get(["S89c1bfbf-A1536463"])
        monkeypatch.setattr("submission.data.argument_metadata.decode_arguments", None)  # calling it fails
        reopened = open_metadata(corpus.args_me_files, corpus.corpus_fingerprint, cache)
        assert first == reopened.get(["S89c1bfbf-A1536463"]) == {"S89c1bfbf-A1536463": ArgumentMetadata("CON", "debateorg")}
        [file] = (tmp_path / "work").rglob(DATABASE_FILE)
        file.write_bytes(b"no database")
        with pytest.raises(OutputError, match="cannot be read"):
            reopened.get(["a"])


def test_other_formats_have_no_metadata(tmp_path: Path) -> None:
    frame = pd.DataFrame({"docno": ["a"], "conclusion": ["b"], "premise": ["c"]})
    with CacheDirectory(None, tmp_path) as cache:
        corpus = Corpus.from_frame(frame)
        assert open_metadata(corpus.args_me_files, corpus.corpus_fingerprint, cache).get(["a"]) == {}
