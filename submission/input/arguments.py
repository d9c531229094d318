"""An argument of args.me, as its files have it."""

from __future__ import annotations

import msgspec

EXPECTED = 'expected {"arguments": [{"id": …, "conclusion": …, "premises": [{"text": …}]}]}'


class Premise(msgspec.Struct, gc=False):
    """A premise of an argument: its text."""

    text: str


class Argument(msgspec.Struct, gc=False):
    """An argument as the corpus file has it, without the fields that nothing reads."""

    id: str
    conclusion: str
    premises: tuple[Premise, ...]


class Corpus(msgspec.Struct, gc=False):
    """A corpus file: its arguments."""

    arguments: list[Argument]


class Places(msgspec.Struct, gc=False):
    """A corpus file: where its arguments are in it."""

    arguments: list[msgspec.Raw]
