from __future__ import annotations

import pytest

from submission.text.index_terms import END_OF_TEXT, TermAnalyser, split_tokens


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("Teachers' tenure — isn't it OUTDATED?", ["teachers", "tenure", "outdated"]),
        ("women’s rights", ["womens", "rights"]),
        ("9/11, 2nd e-mail_address", ["9", "11", "2nd", "e", "mail", "address"]),
        ("“École”\u2013東京…naïve ÉTÉ", ["école", "東京", "naïve", "été"]),
        ("to be, or not to be", []),
        ("a\0b\x1bc \ud800 \ufffe", ["b", "c"]),
        ("ǅungla Straße", ["ǆungla", "straße"]),
    ],
)
def test_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert TermAnalyser("none").analyse(text) == terms


def test_porters_own_stemmer() -> None:
    # bli → ble and logi → log are of his later version; NLTK's own has an exception for dying.
    assert TermAnalyser("porter").analyse("teachers relational hesitanci possibly archaeology dying") == [
        "teacher", "relat", "hesit", "possibl", "archaeolog", "dy",
    ]  # fmt: skip


def test_tokens_of_texts_are_those_of_each() -> None:
    texts = ["Are zoos cruel?", "", "“Zoos” aren’t\n", "…"]
    together = split_tokens(texts)
    assert together.count(END_OF_TEXT) == 4
    assert together == [token for text in texts for token in split_tokens([text])]
