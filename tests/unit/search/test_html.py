from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from submission.search.html import Html, element, joined


def test_what_is_not_made_here_is_text() -> None:
    assert element("p", "<b>&\"'") == "<p>&lt;b&gt;&amp;&quot;&#x27;</p>"
    assert element("p", element("b", "a"), "<") == "<p><b>a</b>&lt;</p>"
    assert joined("a<", Html("<br>")) == "a&lt;<br>"


def test_attributes() -> None:
    assert element("input", name="q", value='"><script>', checked=True, required=False) == (
        '<input name="q" value="&quot;&gt;&lt;script&gt;" checked>'
    )
    assert element("a", class_="x", aria_label="y") == '<a class="x" aria-label="y"></a>'


class Seen(HTMLParser):
    """The elements and the text of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(), st.text())
def test_no_text_makes_an_element(text: str, value: str) -> None:
    seen = Seen(element("p", text, title=value))
    assert seen.elements == ["p"]
    assert len(seen.text) == len(text)
