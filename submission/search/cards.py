"""An argument on the page: what it says, what the question's words are in it, where it is from, and why it is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from submission.search.answer import Found, Listed
from submission.search.asked import Asked
from submission.search.html import Html, element, joined
from submission.search.passage import Span
from submission.search.shades import LEVELS, Shade
from submission.systems.catalogue import SYSTEMS
from submission.systems.explained import Explained, Row

P = TypeVar("P", Span, Shade)

SIDES = {"PRO": "for", "CON": "against"}  # the argument's own conclusion, which need not be what was asked
PARTS = 12  # parts of a score that are shown; the others are summed


def system_section(asked: Asked, listed: Listed) -> Html:
    """Render a system's answer: PRO arguments on one side, CON on the other."""
    size = "" if listed.error else f"{listed.size:,} listed"
    head = (
        element("h2", listed.system, element("span", size), id=listed.system),
        element("p", SYSTEMS[listed.system].about, class_="about"),
    )
    if listed.error is not None:
        return element("section", *head, element("p", str(listed.error), class_="error", role="alert"), class_="system")
    if not listed.found:
        return element("section", *head, element("p", "No argument has a word of it.", class_="lead"), class_="system")
    sides = [
        element("div", element("h3", stance, element("span", f"{word} its conclusion")), *own, class_=f"side {word}")
        for stance, word in SIDES.items()
        if (own := list(_cards(asked, listed, stance)))
    ]
    others = list(_cards(asked, listed, ""))
    neither = element("div", element("h3", "Without a stance"), *others, class_="side neither") if others else ""
    both = element("div", *sides, class_="sides") if len(others) < len(listed.found) else ""
    return element("section", *head, _legend(listed.found), both, neither, class_="system")


def _cards(asked: Asked, listed: Listed, stance: str) -> Iterator[Html]:
    own = [found for found in listed.found if found.origin.stance == stance]
    if not own and stance:
        yield element("p", f"None of the first {len(listed.found)}.", class_="none")
    for found in own:
        yield _card(asked, listed.system, found)


def _card(asked: Asked, system: str, found: Found) -> Html:
    name, premise, place = f"{system}-{found.rank}", found.premise, found.passage.place
    before, behind = premise[: place.start].strip(), premise[place.end :].strip()
    passage = element("p", "…\u00a0" if before else "", _shown(found, place), "\u00a0…" if behind else "", dir="auto")
    whole = element("p", _shown(found, Span(0, len(premise))), dir="auto", class_="whole")
    address, explained = f"{asked.toggled(system, found.docno).address()}#{name}", found.explained
    return element(
        "article",
        element(
            "h4",
            element("span", str(found.rank), class_="rank", title="rank"),
            element("span", found.conclusion, dir="auto", class_="conclusion"),
            element("span", f"{found.score:.4f}", class_="score", title="score"),
        ),
        passage,
        element("details", element("summary", "The whole argument"), whole) if before or behind else "",
        "" if explained is None else _why(explained),
        element(
            "p",
            element("span", found.origin.portal),
            element("code", found.docno),
            element("a", "Why this score?" if explained is None else "Hide why", href=address),
            class_="origin",
        ),
        id=name,
    )


def _shown(found: Found, place: Span) -> Html:
    """A part of a premise, with its marks and shades."""
    marks = {number for mark in _within(found.passage.marks, place) for number in range(mark.start, mark.end)}
    kinds = {number: shade.kind for shade in _within(found.shades, place) for number in range(shade.start, shade.end)}
    looks = [(number in marks, kinds.get(number, "")) for number in range(*place)]
    changes = [place.start + number for number, (one, other) in enumerate(pairwise(looks), 1) if one != other]
    parts = []
    for start, end in pairwise([place.start, *changes, place.end]):
        part: str = found.premise[start:end]
        part = element("mark", part) if start in marks else part
        parts.append(element("span", part, class_=f"shade {kinds[start]}") if start in kinds else part)
    return joined(*parts)


def _within(places: Sequence[P], place: Span) -> Iterator[P]:
    return (one for one in places if place.start <= one.start and one.end <= place.end)


def _legend(found: Sequence[Found]) -> Html | str:
    """Render the legend of shades, where there are some."""
    kinds = {shade.kind for one in found for shade in one.shades}
    levels = [f"s{level}" for level in range(1, LEVELS + 1)]
    if not kinds:
        return ""
    if kinds <= {*levels}:
        samples = [element("span", "\u00a0\u00a0", class_=f"shade {level}") for level in levels]
        return element("p", "What the network weighs words: ", *samples, "the darker, the more", class_="legend")
    samples = [element("span", f"{part}s", class_=f"shade {part}") for part in sorted(kinds)]
    return element("p", "Searched is only what is found to be ", *samples, class_="legend")


def _why(explained: Explained) -> Html:
    """The parts of a score, as bars; what adds nothing is none."""
    ordered = sorted((row for row in explained.parts if row.value), key=lambda row: -abs(row.value))
    first, others = ordered[:PARTS], ordered[PARTS:]
    largest = max((abs(row.value) for row in first), default=0.0) or 1.0
    rest = [Row(sum(row.value for row in others), f"{len(others)} others")] if others else []
    rows = [
        element(
            "tr",
            element("th", row.name, element("span", row.note), scope="row"),
            element("td", f"{row.value:+.4f}"),
            element("td", _bar(min(1.0, abs(row.value) / largest), "less" if row.value < 0 else "more")),
        )
        for row in [*first, *rest]
    ]
    return element("div", element("p", explained.how), element("table", element("tbody", *rows)), class_="why")


def _bar(share: float, kind: str) -> Html:
    return element("meter", value=f"{share:.3f}", class_=kind)
