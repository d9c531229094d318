"""The page: a box for the question, the systems to be asked, and their answers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from submission.search.answer import Answer
from submission.search.asked import DEPTHS, Asked
from submission.search.cards import system_section
from submission.search.html import Html, element
from submission.systems.catalogue import SYSTEMS


@dataclass(frozen=True)
class Site:
    """The settings that all pages share."""

    name: str  # of the corpus
    systems: Sequence[str]  # that can be asked
    examples: Sequence[str]  # questions


def first_page(site: Site, asked: Asked) -> str:
    """Render the page without a question."""
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
    systems = element("div", *(system_section(asked, listed) for listed in answer.systems), class_="systems")
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
        element("summary", "Asking ", element("b", ", ".join(asked.systems)), element("u", "change")),
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
