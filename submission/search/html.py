"""HTML of elements: what is not made here is text, and escaped."""

from __future__ import annotations

from html import escape

from submission.search.visible import visible

EMPTY = {"input", "meta", "link", "br"}  # elements without an end


class Html(str):
    """HTML, as `element` and `joined` make it."""


def element(name: str, /, *content: str, **attributes: str | bool) -> Html:
    """An element: its content is text unless it is Html; True is an attribute without a value, False is none.

    A name of Python's own ends with a line (`class_`), and a line within one is a hyphen (`aria_label`).
    """
    given = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not False
    )
    return Html(f"<{name}{given}>" if name in EMPTY else f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: str) -> Html:
    """Elements and texts one after the other."""
    return Html("".join(part if isinstance(part, Html) else _escaped(part) for part in content))


def _escaped(text: str) -> str:
    return "\n".join(escape(visible(line)) for line in text.split("\n"))


def _attribute(name: str, value: str | bool) -> str:
    return f" {name}" if value is True else f' {name}="{_escaped(str(value))}"'
