from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.search.lines import Line, Style, beside
from submission.search.passage import Span, word
from submission.search.visible import visible, width

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zoos and cages", "zoos and cages"),
        ("a\x1b[31mb\x07\0c", "a\ufffd[31mb\ufffd\ufffdc"),
        ("a\nb\tc\u2028d", "a b c d"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),  # would turn the writing round
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("cafe\u0301 👩\u200d🚀", "cafe\u0301 👩\u200d🚀"),
        ("\ud800", "\ufffd"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_a_mark(text: str, expected: str) -> None:
    assert visible(text) == expected


@pytest.mark.parametrize(("text", "columns"), [("zoo", 3), ("cafe\u0301", 4), ("動物園", 6), ("e\u0301\u200d", 1), ("", 0)])
def test_columns_of_a_text(text: str, columns: int) -> None:
    assert width(text) == columns


def test_texts_are_broken_and_words_marked() -> None:
    text, marks = "Are (zoos) cruel? Zoos are.", [Span(5, 9), Span(18, 22)]
    plain = [line.text for line in Style(False).wrapped(text, marks, 12)]
    assert plain == ["Are (*zoos*)", "cruel?", "*Zoos* are."]
    coloured = [line.text for line in Style(True).wrapped(text, marks, 12)]
    assert coloured == ["Are (\x1b[1;4;33mzoos\x1b[0m)", "cruel? \x1b[1;4;33mZoos\x1b[0m", "are."]


def test_a_word_that_is_too_long_is_cut() -> None:
    assert [line.text for line in Style(True).wrapped("a " + "x" * 25, [], 10)] == ["a", "x" * 10, "x" * 10, "x" * 5]


@given(st.text(max_size=200), st.booleans(), st.integers(8, 40))
def test_no_line_is_longer_than_it_may_be_and_nothing_gets_lost(text: str, coloured: bool, columns: int) -> None:
    marks = [Span(*match.span()) for match in word().finditer(text)][::2]
    lines = list(Style(coloured).wrapped(text, marks, columns))
    seen = [ESCAPES.sub("", line.text) for line in lines]
    assert all(width(one) == line.width for one, line in zip(seen, lines, strict=True))
    if coloured:
        assert all(line.width <= columns for line in lines)
        assert "".join(seen).replace(" ", "") == "".join(visible(text).split())
    assert all(one.isprintable() or "\u200c" in one or "\u200d" in one for one in seen)


def test_blocks_side_by_side() -> None:
    left, right = [Line("a", 1), Line("\x1b[1mbc\x1b[0m", 2)], [Line("d", 1)]
    assert list(beside([left, right], 4)) == ["a    │ d", "\x1b[1mbc\x1b[0m   │"]
