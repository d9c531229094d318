"""The page: a box for the question, the systems side by side, each with what speaks for and what against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from submission.search.answer import Answer, Found, Listed
from submission.search.asked import DEPTHS, Asked
from submission.search.html import Html, element, joined
from submission.search.passage import Span
from submission.search.shades import LEVELS, Shade
from submission.systems.catalogue import SYSTEMS
from submission.systems.explained import Explained

SIDES = {"PRO": "for", "CON": "against"}
PARTS = 12  # parts of a score that are shown; the others are summed


@dataclass(frozen=True)
class Site:
    """What all pages have in common."""

    name: str  # of the corpus
    systems: Sequence[str]  # that can be asked
    examples: Sequence[str]  # questions


def first_page(site: Site, asked: Asked) -> str:
    """Without a question."""
    tried = [
        element("li", element("a", question, href=Asked(question, asked.systems, asked.depth).address()))
        for question in site.examples
    ]
    hint = element("p", "Ask what people argue about, in your own words.", class_="lead")
    examples = element("section", element("h2", "For example"), element("ul", *tried), class_="examples") if tried else ""
    return _page(site, asked, "Ask", hint, examples)


def answer_page(site: Site, asked: Asked, answer: Answer, arguments: int) -> str:
    """With what the systems answer."""
    about = f"{arguments:,} arguments of {site.name}, answered in {answer.seconds:.2f} s"
    systems = element("div", *(_system(asked, listed) for listed in answer.systems), class_="systems")
    return _page(site, asked, answer.question, element("p", about, class_="about"), systems)


def error_page(site: Site, asked: Asked, message: str) -> str:
    """With what went wrong."""
    return _page(site, asked, "No answer", element("p", message, class_="error", role="alert"))


def _page(site: Site, asked: Asked, title: str, *content: str) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · Aragorn"),
        element("link", rel="stylesheet", href="/style.css"),
        element("link", rel="icon", href="data:,"),
    )
    body = element("body", element("header", _form(site, asked)), element("main", *content))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _form(site: Site, asked: Asked) -> Html:
    boxes = [
        element(
            "label",
            element("input", type="checkbox", name="system", value=name, checked=name in asked.systems),
            element("b", name),
            element("span", SYSTEMS[name].about),
        )
        for name in site.systems
    ]
    depths = sorted({*DEPTHS, asked.depth})
    depth = [element("option", str(number), value=str(number), selected=number == asked.depth) for number in depths]
    choice = element(
        "details",
        element("summary", "Asking ", element("b", ", ".join(asked.systems))),
        element("div", *boxes, class_="boxes"),
        element("p", element("label", "Arguments of each ", element("select", *depth, name="depth"))),
        class_="choice",
    )
    box = element(
        "div",
        element("a", "Aragorn", href="/", class_="home"),
        element(
            "input", type="search", name="q", value=asked.question, placeholder="Should zoos be abolished?",
            aria_label="Question", autofocus=not asked.question, required=True, dir="auto",
        ),
        element("button", "Ask"),
        class_="box",
    )  # fmt: skip
    return element("form", box, choice, action="/", role="search")


def _system(asked: Asked, listed: Listed) -> Html:
    title = element("h2", listed.system, id=listed.system)
    about = element("p", SYSTEMS[listed.system].about, class_="about")
    if listed.error is not None:
        return element("section", title, about, element("p", str(listed.error), class_="error", role="alert"), class_="system")
    if not listed.found:
        nothing = element("p", "No argument has a word of the question.", class_="lead")
        return element("section", title, about, nothing, class_="system")
    sides = [
        element(
            "div", element("h3", f"{stance} ", element("span", word)), *_cards(asked, listed, stance), class_=f"side {word}"
        )
        for stance, word in SIDES.items()
    ]
    others = list(_cards(asked, listed, ""))
    neither = element("div", element("h3", "Without a stance"), *others, class_="side neither") if others else ""
    none_has_one = len(others) == len(listed.found)
    legend = _legend(listed.found)
    return element(
        "section",
        title,
        about,
        legend,
        "" if none_has_one else element("div", *sides, class_="sides"),
        neither,
        class_="system",
    )


def _cards(asked: Asked, listed: Listed, stance: str) -> Iterator[Html]:
    own = [found for found in listed.found if found.origin.stance == stance]
    if not own and stance:
        yield element("p", f"none of the first {len(listed.found)}", class_="none")
    for found in own:
        yield _card(asked, listed.system, found)


def _card(asked: Asked, system: str, found: Found) -> Html:
    name, (start, end) = f"{system}-{found.rank}", found.passage.place
    rank = element("span", str(found.rank), class_="rank", title="rank")
    score = element("span", f"{found.score:.4f}", class_="score", title="score")
    cut = Span(start, end) != Span(0, len(found.premise)) and (found.premise[:start].strip() or found.premise[end:].strip())
    passage = element(
        "p",
        "… " if found.premise[:start].strip() else "",
        _shown(found, Span(start, end)),
        " …" if found.premise[end:].strip() else "",
        dir="auto",
    )
    whole = element("p", _shown(found, Span(0, len(found.premise))), dir="auto", class_="whole")
    opened = found.explained is not None
    why = element(
        "a", "Hide why" if opened else "Why this score?", href=f"{asked.toggled(system, found.docno).address()}#{name}"
    )
    return element(
        "article",
        element("h4", rank, element("span", found.conclusion, dir="auto", class_="conclusion"), score),
        passage,
        element("details", element("summary", "The whole argument"), whole) if cut else "",
        _why(found.explained) if found.explained is not None else "",
        element("p", element("span", found.origin.portal), element("code", found.docno), why, class_="origin"),
        id=name,
    )


def _shown(found: Found, place: Span) -> Html:
    """A part of a premise with its marks and shades."""
    premise, marks = (
        found.premise,
        [mark for mark in found.passage.marks if place.start <= mark.start and mark.end <= place.end],
    )
    shades = [shade for shade in found.shades if place.start <= shade.start and shade.end <= place.end]
    ends = {place.start, place.end, *_ends(marks), *_ends(shades)}
    marked, shaded = _covered(marks), {place: shade.kind for shade in shades for place in range(shade.start, shade.end)}
    parts = []
    for start, end in pairwise(sorted(ends)):
        part: str = premise[start:end]
        if start in marked:
            part = element("mark", part)
        if start in shaded:
            part = element("span", part, class_=f"shade {shaded[start]}")
        parts.append(part)
    return joined(*parts)


def _ends(places: Iterable[Span | Shade]) -> Iterator[int]:
    for place in places:
        yield place.start
        yield place.end


def _covered(places: Iterable[Span]) -> set[int]:
    return {number for place in places for number in range(place.start, place.end)}


def _legend(found: Sequence[Found]) -> Html | str:
    kinds = {shade.kind for one in found for shade in one.shades}
    if not kinds:
        return ""
    parts = sorted(kinds - {f"s{level}" for level in range(1, LEVELS + 1)})
    if parts:
        samples = [element("span", f"{part}s", class_=f"shade {part}") for part in parts]
        return element("p", "Only these words are searched: ", *_between(samples, ", "), class_="legend")
    samples = [element("span", " ", class_=f"shade s{level}") for level in range(1, LEVELS + 1)]
    return element("p", "The network’s weight of a word: ", *samples, " the darker, the more it counts", class_="legend")


def _between(parts: Sequence[str], separator: str) -> Iterator[str]:
    for number, part in enumerate(parts):
        yield separator if number else ""
        yield part


def _why(explained: Explained) -> Html:
    """The parts of a score, as bars."""
    ordered = sorted(explained.parts, key=lambda row: -abs(row.value))
    largest = max((abs(row.value) for row in ordered), default=0.0) or 1.0
    rows = [
        element(
            "tr",
            element("th", row.name, scope="row"),
            element("td", f"{row.value:+.4f}"),
            element(
                "td", element("meter", value=f"{abs(row.value) / largest:.3f}", class_="less" if row.value < 0 else "more")
            ),
            element("td", row.note),
        )
        for row in ordered[:PARTS]
    ]
    others = ordered[PARTS:]
    if others:
        rest = f"{sum(row.value for row in others):+.4f}"
        rows.append(
            element(
                "tr", element("th", f"{len(others)} others", scope="row"), element("td", rest), element("td"), element("td")
            )
        )
    return element("div", element("p", explained.how), element("table", element("tbody", *rows)), class_="why")
