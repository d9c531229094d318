from __future__ import annotations

import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from submission.data.argument_metadata import ArgumentMetadata
from submission.search.results import Hit, SearchResults, SystemResults
from submission.search.snippets import Snippet, Span, compile_word_pattern
from submission.search.terminal import print_results
from submission.systems.explanation import ExplanationRow, ScoreExplanation
from submission.text.normalisation import sanitise

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def make_results(premise: str, conclusion: str = "zoos", explanation: ScoreExplanation | None = None) -> SystemResults:
    """Create the results of a system: a hit whose snippet is the whole premise, with every second word as a match."""
    matches = [Span(*match.span()) for match in compile_word_pattern().finditer(premise)][::2]
    snippet = Snippet(Span(0, len(premise)), matches)
    hit = Hit(1, 1.5, "doc", ArgumentMetadata("PRO", "portal"), conclusion, premise, snippet, [], explanation)
    return SystemResults("[b]bm25[/b]", [hit], 1)


def render_systems(*systems: SystemResults, width: int = 200, coloured: bool = False) -> str:
    console = Console(
        file=StringIO(), width=width, force_terminal=coloured, color_system="standard" if coloured else None,
        markup=False, highlight=False, emoji=False, _environ={},
    )  # fmt: skip
    print_results(SearchResults("zoos?", list(systems), 0.1), 461, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


ROWS = [ExplanationRow(float(value), f"term{value}", "note") for value in (1, 0, -7, 2, 3, 4, 5)]
RENDERED: dict[str, tuple[SystemResults, bool, str]] = {  # results, whether they are coloured, part of the output
    "markup in premises": (
        make_results("[bold]are[/bold] :zoo: [/] http://a.example/ 'x' 12"), False,
        "[*bold*]are[/*bold*] :zoo: [/] *http*://a.*example*/ 'x' *12*",
    ),
    "no results": (SystemResults("bm25", [], 0), False, "no results: no argument matches the query; use other words"),
    "markup in systems": (make_results(""), False, "[b]bm25[/b]  1 results"),
    "coloured matches": (
        make_results("Zoos are cruel."), True, "\x1b[1;4;33mZoos\x1b[0m are \x1b[1;4;33mcruel\x1b[0m."
    ),
    "largest contributions": (
        make_results("zoos", explanation=ScoreExplanation(8.0, "the sum", ROWS)), False,
        "contributions: term-7 -7.000, term5 +5.000, term4 +4.000, term3 +3.000, term2 +2.000, 1 more +1.000",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RENDERED)
def test_results_are_rendered(name: str) -> None:
    results, is_coloured, expected = RENDERED[name]
    assert expected in render_systems(results, coloured=is_coloured)


@given(st.text(max_size=200), st.booleans(), st.integers(20, 40), st.integers(1, 2))
def test_lines_fit_the_width_and_keep_all_text(text: str, coloured: bool, width: int, system_count: int) -> None:
    systems = [make_results(text)] * system_count
    lines = [ESCAPES.sub("", line) for line in render_systems(*systems, width=width, coloured=coloured).split("\n")]
    assert all(cell_len(line) <= width for line in lines)
    assert all(character.isprintable() or character in "\u200c\u200d" for line in lines for character in line)
    hit = lines[lines.index("  1  PRO  1.5000") + 2 :]  # below the conclusion
    snippet = "".join("".join(hit).partition("portal doc")[0].split())
    if coloured:
        assert snippet == "".join(sanitise(text).split())
