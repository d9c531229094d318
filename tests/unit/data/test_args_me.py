from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from submission.data.args_me import find_corpus_files
from submission.data.collection import select_collection, validate_collection
from submission.errors import InputError
from tests.conftest import PREMISE, load_documents, make_argument


def write_and_load(directory: Path, content: str | bytes, name: str = "args-me.json") -> list[dict[str, str]]:
    data = content if isinstance(content, bytes) else content.encode()
    (directory / name).write_bytes(data)
    return load_documents(directory).to_dict("records")  # type: ignore[return-value]


def corpus(*arguments: dict[str, object]) -> str:
    return json.dumps({"arguments": list(arguments)})


def test_premises_are_joined_in_order(tmp_path: Path) -> None:
    three_premises = {
        "id": "x",
        "conclusion": "C",
        "premises": [{"text": "one"}, {"text": "two"}, {"text": "three"}],
        "more": [1],
    }
    no_premises = {"id": "a", "conclusion": "C", "premises": []}
    rows = write_and_load(tmp_path, corpus(three_premises, no_premises))
    assert rows == [
        {"docno": "x", "conclusion": "C", "premise": "one two three"},
        {"docno": "a", "conclusion": "C", "premise": ""},
    ]


def test_portal_files_gzip_and_both_id_forms(tmp_path: Path) -> None:
    first, second = "S102a4f1a-A4a1828d0", "197beaca-2019-04-18T11:28:59Z-00001-000"
    (tmp_path / "debateorg.json").write_text(corpus(make_argument(first)))
    rows = write_and_load(tmp_path, gzip.compress(corpus(make_argument(second)).encode()), "idebate.json.gz")
    assert [row["docno"] for row in rows] == [first, second]


def test_other_json_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text("{}")
    with pytest.raises(InputError, match=r"no corpus found; expected args-me\*\.json, or debateorg\.json"):
        find_corpus_files(tmp_path)


def test_missing_directory_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="input directory not found"):
        find_corpus_files(tmp_path / "absent")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"arguments": [\n{"id": "a",,}]}', ["args-me.json, argument 1, line 2, column", "malformed JSON"]),
        ('{"arguments": [\n{"id": "a", "concl', ["line 2", "malformed JSON"]),
        (b'{"arguments": [\n{"id": "caf\xe9"}]}', ["argument 1, line 2, column 12", "invalid UTF-8 at byte 27"]),
        (
            corpus({"id": "a", "conclusion": "C", "premises": []}, {"id": "b", "premises": []}),
            ["argument 2 (id b)", "`conclusion`"],
        ),
        (corpus({"id": "a", "conclusion": "C"}), ["argument 1 (id a)", "`premises`"]),
        (corpus({"conclusion": "C", "premises": []}), ["argument 1", "`id`"]),
        (corpus({"id": "a", "conclusion": None, "premises": []}), ["(id a)", "Expected `str`, got `null`"]),
        (corpus({"id": "a", "conclusion": "C", "premises": [{"stance": "PRO"}]}), ["(id a)", "`text`"]),
        ('{"arguments": [{"id": 1}, ', ["argument 2, line 1, column 27: malformed JSON"]),
        ('{"arguments": [{"id": "a", "more": ' + "[" * 200_000, ["malformed JSON"]),
        ("[]", ["expected {"]),
        ("", ["malformed JSON"]),
        (corpus(make_argument("a b")), ["'a b'", "without whitespace"]),
        (corpus(make_argument("")), ["''", "without whitespace"]),
        (corpus(make_argument("a"), make_argument("")), ["''", "without whitespace"]),
        (corpus(make_argument(" a"), make_argument("b")), ["' a'", "without whitespace"]),
        (corpus(make_argument("a"), make_argument("b\n")), [r"'b\n'", "without whitespace"]),
        (corpus(make_argument("\u2003")), ["without whitespace"]),
    ],
)
def test_invalid_corpus_raises(tmp_path: Path, content: str | bytes, expected: list[str]) -> None:
    with pytest.raises(InputError) as error:
        write_and_load(tmp_path, content)
    assert all(word in str(error.value) for word in expected), error.value


def test_damaged_gzip_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="damaged gzip"):
        write_and_load(tmp_path, gzip.compress(corpus(make_argument("a")).encode())[:-9], "args-me.json.gz")


def test_equal_duplicates_are_dropped_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "idebate.json").write_text(corpus(make_argument("a"), make_argument("b")))
    rows = write_and_load(tmp_path, corpus(make_argument("a"), make_argument("c")), "debateorg.json")
    assert [row["docno"] for row in rows] == ["a", "c", "b"]
    assert "dropped 1 duplicate argument (same id and text)" in caplog.text


def test_conflicting_duplicates_name_id_and_files(tmp_path: Path) -> None:
    (tmp_path / "idebate.json").write_text(corpus(make_argument("a", premise="other")))
    with pytest.raises(InputError, match=r"debateorg\.json.*idebate\.json: argument a occurs 2 times with different texts"):
        write_and_load(tmp_path, corpus(make_argument("a")), "debateorg.json")


def test_empty_corpus(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert write_and_load(tmp_path, corpus()) == []
    assert not caplog.messages


def test_collection_excludes_short_premises(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    texts = {"a": " ".join(["w"] * 15), "b": " ".join(["w"] * 14), "c": " ", "d": PREMISE}
    (tmp_path / "args-me.json").write_text(corpus(*(make_argument(docno, premise=text) for docno, text in texts.items())))
    collection = select_collection(load_documents(tmp_path))
    assert list(collection["docno"]) == ["a", "d"]
    assert "2 of 4 arguments (excluded: 1 with empty premise, 1 shorter than 15 words)" in caplog.text


def test_empty_collection_raises(make_input: Callable[..., Path]) -> None:
    directory = make_input(arguments=[make_argument("a", premise="short")])
    documents = load_documents(directory)
    with pytest.raises(InputError, match="at least 15 words"):
        validate_collection(select_collection(documents), len(documents))
