"""Lines for a terminal: texts with some of their words marked, broken to a width, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from submission.search.passage import Span
from submission.search.visible import visible, width

WRITTEN = re.compile(r"\S+")
PLAIN = "\x1b[0m"


@dataclass(frozen=True)
class Line:
    """A line with what colours it, and how many columns it takes."""

    text: str
    width: int

    def padded(self, columns: int) -> str:
        """With blanks up to so many columns."""
        return self.text + " " * (columns - self.width)


@dataclass(frozen=True)
class Style:
    """The marks of words: colours or, where there are none, signs."""

    coloured: bool

    def line(self, *parts: tuple[str, str]) -> Line:
        """A line of texts, each with an escape code ("1;32"), or "" for none."""
        texts = [(visible(text), code) for text, code in parts]
        return Line("".join(self._in(code, text) for text, code in texts), sum(width(text) for text, _ in texts))

    def marked(self, text: str) -> str:
        """A word of the question."""
        return self._in("1;4;33", text) if self.coloured else f"*{text}*"

    def wrapped(self, text: str, marks: Sequence[Span], columns: int) -> Iterator[Line]:
        """A text in lines of at most so many columns."""
        text, line, used = visible(text), "", 0
        for word in _words(text, columns if self.coloured else max(1, columns - 2)):
            own = "".join(
                self.marked(text[part.start : part.end]) if part in marks else text[part.start : part.end]
                for part in _cut(word, marks)
            )
            size = width(text[word.start : word.end])
            if not self.coloured:
                size += 2 * sum(word.start <= mark.start and mark.end <= word.end for mark in marks)
            if used and used + 1 + size > columns:
                yield Line(line, used)
                line, used = "", 0
            line, used = f"{line} {own}" if used else own, used + bool(used) + size
        if used:
            yield Line(line, used)

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}{PLAIN}" if self.coloured and code and text else text


def indented(lines: Iterable[Line], columns: int) -> Iterator[Line]:
    """Lines with blanks before them."""
    for line in lines:
        yield Line(" " * columns + line.text, columns + line.width)


def beside(blocks: Sequence[Sequence[Line]], columns: int) -> Iterator[str]:
    """Blocks of lines side by side, each so many columns wide."""
    for row in zip_longest(*blocks, fillvalue=Line("", 0)):
        yield " │ ".join(line.padded(columns) for line in row).rstrip()


def _words(text: str, longest: int) -> Iterator[Span]:
    """Split a text at blanks; a word that is too long for a line is cut."""
    for match in WRITTEN.finditer(text):
        start, size = match.start(), 0
        for place in range(*match.span()):
            size += width(text[place])
            if size > longest:
                yield Span(start, place)
                start, size = place, width(text[place])
        yield Span(start, match.end())


def _cut(word: Span, marks: Sequence[Span]) -> Iterator[Span]:
    """A word in parts: marked ones, and what is between them."""
    end = word.start
    for mark in marks:
        if word.start <= mark.start and mark.end <= word.end:
            yield from (Span(end, mark.start), mark)
            end = mark.end
    yield Span(end, word.end)
