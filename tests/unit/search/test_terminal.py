from __future__ import annotations

import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from submission.data.argument_metadata import ArgumentMetadata
from submission.errors import CheckpointError
from submission.search.results import Hit, SearchResults, SystemResults
from submission.search.snippets import Snippet, Span, compile_term_pattern
from submission.search.terminal import render
from submission.systems.explanation import ExplanationRow, ScoreExplanation
from submission.text.normalisation import sanitise

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def make_hit(premise: str, conclusion: str = "zoos", explanation: ScoreExplanation | None = None) -> Hit:
    """Create a hit whose snippet is the whole premise and in which every second word is a match."""
    matches = [Span(*match.span()) for match in compile_term_pattern().finditer(premise)][::2]
    snippet = Snippet(Span(0, len(premise)), matches)
    return Hit(1, 1.5, "doc", ArgumentMetadata("PRO", "portal"), conclusion, premise, snippet, [], explanation)


def render_systems(*systems: SystemResults, width: int = 100, coloured: bool = False) -> str:
    console = Console(
        file=StringIO(), width=width, force_terminal=coloured, color_system="standard" if coloured else None,
        markup=False, highlight=False, emoji=False, _environ={},
    )  # fmt: skip
    render(SearchResults("zoos?", list(systems), 0.1), 461, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zoos and cages", "zoos and cages"),
        ("a\x1b[31mb\x07\0c", "a\ufffd[31mb\ufffd\ufffdc"),
        ("a\nb\tc\u2028d", "a b c d"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),  # reverses the direction
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("cafe\u0301 👩\u200d🚀", "cafe\u0301 👩\u200d🚀"),
        ("\ud800", "\ufffd"),
    ],
)
def test_invisible_characters_are_replaced(text: str, expected: str) -> None:
    assert sanitise(text) == expected


def test_markup_in_texts_is_not_interpreted() -> None:
    premise, conclusion = "[bold]are[/bold] :zoo: [/] http://a.example/ 'x' 12", "[red]zoos[/red] [/]"
    systems = (
        SystemResults("[b]bm25[/b]", [make_hit(premise, conclusion)], 1),
        SystemResults("gru", error=CheckpointError("[/x]")),
    )
    text = render_systems(*systems, width=200)
    assert "[red]zoos[/red] [/]" in text
    assert "[*bold*]are[/*bold*] :zoo: [/] *http*://a.*example*/ 'x' *12*" in text
    assert "failed: [/x]" in text
    assert "[b]bm25[/b]" in text


def test_matches_are_highlighted() -> None:
    system = SystemResults("bm25", [make_hit("Zoos are cruel.")], 1)
    assert "*Zoos* are *cruel*." in render_systems(system)
    assert "\x1b[1;4;33mZoos\x1b[0m are \x1b[1;4;33mcruel\x1b[0m." in render_systems(system, coloured=True)


def test_largest_contributions_are_shown() -> None:
    rows = [ExplanationRow(float(value), f"term{value}", "note") for value in (1, 0, -7, 2, 3, 4, 5)]
    text = render_systems(
        SystemResults("bm25", [make_hit("zoos", explanation=ScoreExplanation(8.0, "the sum", rows))], 1), width=200
    )
    assert "contributions: term-7 -7.000, term5 +5.000, term4 +4.000, term3 +3.000, term2 +2.000, 1 more +1.000" in text


@given(st.text(max_size=200), st.booleans(), st.integers(20, 40), st.integers(1, 2))
def test_lines_fit_the_width_and_keep_all_text(text: str, coloured: bool, width: int, system_count: int) -> None:
    systems = [SystemResults("bm25", [make_hit(text)], 1)] * system_count
    lines = [ESCAPES.sub("", line) for line in render_systems(*systems, width=width, coloured=coloured).split("\n")]
    assert all(cell_len(line) <= width for line in lines)
    assert all(character.isprintable() or character in "\u200c\u200d" for line in lines for character in line)
    hit = lines[lines.index("  1  PRO  1.5000") + 2 :]  # below the conclusion
    snippet = "".join("".join(hit).partition("portal doc")[0].split())
    if coloured:
        assert snippet == "".join(sanitise(text).split())
