"""An answer for a terminal: systems side by side where it is wide enough, else one below the other."""

from __future__ import annotations

from collections.abc import Iterator

from submission.search.answer import Answer, Found, Listed
from submission.search.lines import Line, Style, beside, indented
from submission.search.passage import Span
from submission.systems.explained import Explained, Row

NARROWEST = 44  # columns that a system takes at least where systems are side by side
WIDEST = 110  # that a text takes: longer lines are hard to read
BEHIND_RANK = 5  # columns before a text
PARTS = 5  # parts of a score that are named
BOLD, FAINT, RED = "1", "2", "31"
STANCES = {"PRO": "1;32", "CON": "1;31"}  # green, red


def written(answer: Answer, arguments: int, columns: int, coloured: bool) -> str:
    """An answer as lines.

    Args:
        answer: what to write.
        arguments: how many were searched.
        columns: how wide the terminal is.
        coloured: whether it has colours.
    """
    style, number = Style(coloured), len(answer.systems)
    each = (columns - 3 * (number - 1)) // number
    across = number > 1 and each >= NARROWEST
    size = min(each if across else columns, WIDEST)
    about = style.line((answer.question, BOLD), (f"   {arguments} arguments, {answer.seconds:.2f} s", FAINT))
    blocks = [list(_blocks(style, listed, size)) for listed in answer.systems]
    lines = [about.text, ""]
    if across:
        deepest = max(map(len, blocks))
        for row in range(deepest):
            lines += beside([block[row] if row < len(block) else [] for block in blocks], size)
    else:
        lines += [line.text.rstrip() for block in blocks for part in block for line in part]
    return "\n".join(lines) + "\n"


def _blocks(style: Style, listed: Listed, columns: int) -> Iterator[list[Line]]:
    """A system's name and its arguments, each some lines with an empty one behind them."""
    empty = Line("", 0)
    name = [style.line((listed.system, "1;34"), ("" if listed.error else f"  {listed.size} listed", FAINT)), empty]
    if listed.error:
        name += [*_plain(style, f"failed: {listed.error}", columns), empty]
    elif not listed.found:
        name += [*_plain(style, "nothing: no argument has a word of the question", columns), empty]
    yield name
    for found in listed.found:
        yield [*_lines(style, found, columns), empty]


def _lines(style: Style, found: Found, columns: int) -> Iterator[Line]:
    stance = found.origin.stance
    signs = stance or " - "
    yield style.line((f"{found.rank:>3}  ", BOLD), (signs, STANCES.get(stance, FAINT)), (f"  {found.score:.4f}", FAINT))
    inner, (start, end), premise = columns - BEHIND_RANK, found.passage.place, found.premise
    for line in style.wrapped(found.conclusion, [], inner):
        yield from indented([style.line((line.text, BOLD))], BEHIND_RANK)
    before, behind = "… " if premise[:start].strip() else "", " …" if premise[end:].strip() else ""
    shift = len(before) - start
    marks = [Span(mark.start + shift, mark.end + shift) for mark in found.passage.within]
    yield from indented(style.wrapped(before + premise[start:end] + behind, marks, inner), BEHIND_RANK)
    if found.explained is not None:
        for line in style.wrapped(in_a_line(found.explained), [], inner):
            yield from indented([style.line((line.text, "36"))], BEHIND_RANK)
    place = "  ".join(text for text in (found.origin.portal, found.docno) if text)
    for line in style.wrapped(place, [], inner):
        yield from indented([style.line((line.text, FAINT))], BEHIND_RANK)


def in_a_line(explained: Explained) -> str:
    """The largest parts of a score, and the sum of the others; what adds nothing is none."""
    ordered = sorted((row for row in explained.parts if row.value), key=lambda row: -abs(row.value))
    first, others = ordered[:PARTS], ordered[PARTS:]
    rest = [Row(sum(row.value for row in others), f"{len(others)} others")] if others else []
    return "why: " + ", ".join(f"{row.name} {row.value:+.3f}" for row in [*first, *rest])


def _plain(style: Style, text: str, columns: int) -> Iterator[Line]:
    return style.wrapped(text, [], columns)
