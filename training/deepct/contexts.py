"""What an argument's context says it is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from submission.input.files import BOM, content


class _Context(msgspec.Struct, rename="camel"):
    topic: str = ""
    discussion_title: str = ""


class _Argument(msgspec.Struct):
    id: str
    context: _Context = msgspec.field(default_factory=_Context)


class _Corpus(msgspec.Struct):
    arguments: list[_Argument]


def topics_of(files: Sequence[Path]) -> dict[str, str]:
    """The topics of arguments by docno: the context's `topic`, else its `discussionTitle`; "" where it has neither.

    Args:
        files: of a corpus, which has been read by `read_documents` without faults.
    """
    found: dict[str, str] = {}
    for file in files:
        data = content(file)
        corpus = msgspec.json.decode(data[3:] if data[:3] == BOM else data, type=_Corpus)
        found |= {argument.id: argument.context.topic or argument.context.discussion_title for argument in corpus.arguments}
    return found
