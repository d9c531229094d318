"""Texts → index terms: runs of letters and digits, lower-cased, no apostrophes, no stop words, stemmed or as they are.

Characters are unified first, see `characters`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from submission.text.characters import unified
from submission.text.normalise import APOSTROPHES, stop_words

Stemmer = Literal["porter", "none"]

END = b"\xff"  # of a text among tokens; no byte of UTF-8
_ASCII = bytes(
    code if code > 127 else ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(256)
)  # a capital letter becomes a small one, what is neither letter nor digit a blank
_WORD = re.compile(r"[^\W_]+")
_APOSTROPHE = re.compile(f"[{APOSTROPHES}]")


def tokens(texts: Sequence[str]) -> list[bytes]:
    """Split texts at ASCII blanks and marks, with END behind each text; other alphabets stay as they are.

    Of millions of tokens only the different ones are looked at more closely, see `Terms`: that is what makes it fast.
    """
    joined = b"".join(text.encode(errors="replace") + b" " + END + b" " for text in texts)
    return joined.translate(_ASCII, b"'").split()


class Terms(dict[bytes, tuple[str, ...]]):
    """Tokens to their index terms: mostly one, none of a stop word; each made when it is first met."""

    def __init__(self, stemmer: Stemmer) -> None:
        """Create an empty cache."""
        super().__init__({END: ()})
        self._stem = _porter() if stemmer == "porter" else str

    def __missing__(self, token: bytes) -> tuple[str, ...]:
        words = [token.decode()] if token.isascii() else _WORD.findall(_APOSTROPHE.sub("", unified(token.decode()).lower()))
        self[token] = terms = tuple(self._stem(word) for word in words if word not in stop_words())
        return terms

    def of(self, text: str) -> list[str]:
        """The index terms of a text in their order."""
        return [term for token in tokens([text]) for term in self[token]]


@cache
def _porter() -> Callable[[str], str]:
    """Porter's stemmer in Martin Porter's own version of it."""
    from nltk.stem.porter import PorterStemmer  # it takes two seconds, and most executions do not need it

    stemmer = PorterStemmer(PorterStemmer.MARTIN_EXTENSIONS)
    return lambda word: str(stemmer.stem(word, to_lowercase=False))
