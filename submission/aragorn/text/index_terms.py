"""Convert texts to index terms.

Unicode is normalised first. Terms are lower-cased runs of letters and digits, without apostrophes
and stop words, and optionally stemmed.
"""

import re
from collections.abc import Sequence
from typing import Literal

from aragorn.text.normalisation import APOSTROPHES, load_stop_words, normalise_unicode
from aragorn.text.porter import stem

VERSION = 1  # of index terms and stems
COMPUTES_WITH = ("aragorn.text.normalisation",)

Stemmer = Literal["porter", "none"]

END_OF_TEXT = b"\xff"  # marks the end of a text; never occurs in UTF-8
_ASCII_TRANSLATION = bytes(
    code if code > 127 else ord(chr(code).lower()) if chr(code).isalnum() else ord(" ")
    for code in range(256)
)  # lower-cases ASCII letters; maps ASCII punctuation to spaces
_WORD = re.compile(r"[^\W_]+")
_APOSTROPHE = re.compile(f"[{APOSTROPHES}]")


def split_tokens(texts: Sequence[str]) -> list[bytes]:
    """Split texts into lower-cased UTF-8 tokens, with END_OF_TEXT after each text.

    The separators are ASCII whitespace and punctuation. `TermAnalyser` analyses each distinct token
    only once, which makes indexing fast.
    """
    utf8_texts = b"".join(
        text.encode(errors="replace") + b" " + END_OF_TEXT + b" " for text in texts
    )
    return utf8_texts.translate(_ASCII_TRANSLATION, b"'").split()


class TermAnalyser(dict[bytes, tuple[str, ...]]):
    """Cached mapping from tokens of `split_tokens` to index terms; a stop word has none."""

    def __init__(self, stemmer: Stemmer) -> None:
        super().__init__({END_OF_TEXT: ()})
        self.stemmer = stemmer

    def __missing__(self, token: bytes) -> tuple[str, ...]:
        words = [token.decode()]
        if not token.isascii():
            words = _WORD.findall(_APOSTROPHE.sub("", normalise_unicode(words[0]).lower()))
        terms = [word for word in words if word not in load_stop_words()]
        if self.stemmer == "porter":
            terms = [stem(term) for term in terms]
        self[token] = tuple(terms)
        return self[token]

    def analyse(self, text: str) -> list[str]:
        return [term for token in split_tokens([text]) for term in self[token]]
