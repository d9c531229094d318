from __future__ import annotations

from pathlib import Path

import pytest

from submission.data.topics import find_topic_files
from submission.errors import InputError
from tests.conftest import REAL_DATA, load_topics

TOPIC = "<topic><number>{}</number><title>{}</title></topic>"


def write(directory: Path, *topics: str, name: str = "topics.xml") -> list[Path]:
    file = directory / name
    file.write_text("<topics>\n" + "\n".join(topics) + "\n</topics>", encoding="utf-8")
    return [file]


def test_topics_are_sorted_and_titles_collapsed(tmp_path: Path) -> None:
    files = write(tmp_path, TOPIC.format(10, "B?"), "<topic><num> 9 </num><title>\n Is  <i>A</i>\n right?</title></topic>")
    assert load_topics(files).to_dict("list") == {"qid": ["9", "10"], "query": ["Is A right?", "B?"]}


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([TOPIC.format(1, "A"), TOPIC.format(1, "B")], ["line 3", "duplicate topic 1 (first at", "line 2"]),
        ([TOPIC.format(1, " ")], ["line 2", "topic 1 has no title"]),
        ([TOPIC.format("", "A")], ["line 2", "topic without number"]),
        ([TOPIC.format("1 2", "A")], ["line 2", "without whitespace"]),
        (["<topic><number>1</number><title>A</topic>"], ["topics.xml, line 2", "malformed XML"]),
        (["<topic>"], ["malformed XML"]),
        ([], ["no <topic> element"]),
    ],
)
def test_invalid_topics_raise(tmp_path: Path, topics: list[str], expected: list[str]) -> None:
    with pytest.raises(InputError) as error:
        load_topics(write(tmp_path, *topics))
    assert all(word in str(error.value) for word in expected), error.value


@pytest.mark.parametrize(
    "prolog",
    [
        '<!DOCTYPE topics [<!ENTITY a "zoos">]>',
        '<!DOCTYPE topics [<!ENTITY a SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE topics SYSTEM "http://example.org/topics.dtd">',
    ],
)
def test_document_type_declaration_raises(tmp_path: Path, prolog: str) -> None:
    file = tmp_path / "topics.xml"
    reference = "&a;" if "ENTITY" in prolog else "x"
    file.write_text(f"{prolog}<topics>{TOPIC.format(1, reference)}</topics>")
    with pytest.raises(InputError, match="document type declaration"):
        load_topics([file])


def test_exponential_entities_raise(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(30))
    file = tmp_path / "topics.xml"
    file.write_text(f'<!DOCTYPE t [<!ENTITY e0 "x">{entities}]><topics>{TOPIC.format(1, "&e30;")}</topics>')
    with pytest.raises(InputError):
        load_topics([file])


def test_invalid_utf8_names_line(tmp_path: Path) -> None:
    file = tmp_path / "topics.xml"
    file.write_bytes(b"<topics>\n<topic><number>1</number><title>caf\xe9</title></topic></topics>")
    with pytest.raises(InputError, match=r"line 2: malformed XML"):
        load_topics([file])


def test_missing_topics_file_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a file named topics\*\.xml"):
        find_topic_files(tmp_path)


def test_topics_of_several_files_are_merged(tmp_path: Path) -> None:
    write(tmp_path, TOPIC.format(2, "B"), name="topics-b.xml")
    write(tmp_path, TOPIC.format(1, "A"), name="topics-a.xml")
    assert list(load_topics(find_topic_files(tmp_path))["query"]) == ["A", "B"]


@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the args.me data")
@pytest.mark.parametrize(
    ("file", "count", "first"),
    [
        ("topics/topics-2020-early-num-tag.xml", 50, "Should Teachers Get Tenure?"),
        ("topics/topics-task-1-only-titles.xml", 50, "Do we need sex education in schools?"),
        ("topics/topics-2022.xml", 50, "Should teachers get tenure?"),
        ("touche-2020/input/topics.xml", 49, "Should teachers get tenure?"),
    ],
)
def test_real_topics(file: str, count: int, first: str) -> None:
    topics = load_topics([REAL_DATA / file])
    assert (len(topics), topics["query"][0]) == (count, first)
