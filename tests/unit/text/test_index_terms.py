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
def test_analyse_text(text: str, terms: list[str]) -> None:
    assert TermAnalyser("none").analyse(text) == terms


def test_porter_stemmer_with_extensions() -> None:
    # bli → ble and logi → log are Martin Porter's extensions; NLTK's default has an exception for dying.
    assert TermAnalyser("porter").analyse("teachers relational hesitanci possibly archaeology dying") == [
        "teacher", "relat", "hesit", "possibl", "archaeolog", "dy",
    ]  # fmt: skip


def test_split_tokens_of_several_texts() -> None:
    texts = ["Are zoos cruel?", "", "“Zoos” aren’t\n", "…"]
    tokens = split_tokens(texts)
    assert tokens.count(END_OF_TEXT) == 4
    assert tokens == [token for text in texts for token in split_tokens([text])]
