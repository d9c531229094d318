"""An argument of args.me, as its files have it."""

from __future__ import annotations

import msgspec

EXPECTED = 'expected {"arguments": [{"id": …, "conclusion": …, "premises": [{"text": …}]}]}'


class Premise(msgspec.Struct, gc=False):
    """A text."""

    text: str


class Argument(msgspec.Struct, gc=False):
    """What is read of it."""

    id: str
    conclusion: str
    premises: tuple[Premise, ...]


class Corpus(msgspec.Struct, gc=False):
    """A file."""

    arguments: list[Argument]
