from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.data.topics import read_topics
from submission.errors import UsageError
from submission.search.inputs import MAX_CHARACTERS, clean_query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Should zoos\tbe\nabolished? ", "Should zoos be abolished?"),
        ("zoos\0and\x1b[31mcages\x07", "zoos and [31mcages"),
        ("zoo\udcffs", "zoo\ufffds"),
        ("Cafe\u0301s für alle?", "Cafe\u0301s für alle?"),  # unchanged
        ("\u0647\u0644 \u064a\u062c\u0628\u061f", "\u0647\u0644 \u064a\u062c\u0628\u061f"),
        ("z" * MAX_CHARACTERS, "z" * MAX_CHARACTERS),
    ],
)
def test_whitespace_and_control_characters_are_replaced(text: str, expected: str) -> None:
    assert clean_query(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty query; enter at least one word"),
        (" \n\0\x7f ", "empty query; enter at least one word"),
        ("zoo " * MAX_CHARACTERS, f"query has {4 * MAX_CHARACTERS - 1} characters ('zoo zoo zoo"),
    ],
)
def test_empty_and_long_queries_fail(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        clean_query(text)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_query_equals_the_title_of_a_topic(tmp_path_factory: pytest.TempPathFactory, title: str) -> None:
    file: Path = tmp_path_factory.mktemp("topics") / "topics.xml"
    try:
        file.write_text(f"<topics><topic><number>1</number><title>{escape(title)}</title></topic></topics>", encoding="utf-8")
        topics, issues = read_topics([file])
    except UnicodeEncodeError:
        return
    if issues:  # XML cannot hold it, or it is empty
        return
    assert clean_query(title) == topics["query"].item()
