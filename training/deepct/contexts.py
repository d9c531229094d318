"""Read the topic of an argument from its context in the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from submission.errors import InputError
from submission.input.arguments_lines import arguments_as


class _Context(msgspec.Struct, rename="camel"):
    topic: str | None = None
    discussion_title: str | None = None


class _Argument(msgspec.Struct):
    id: str
    context: _Context | None = None


def topics_of(files: Sequence[Path]) -> dict[str, str]:
    """The topics of arguments by docno: the context's `topic`, else its `discussionTitle`; "" where it has neither.

    Args:
        files: of a corpus, which has been read by `read_documents` without faults.

    Raises:
        InputError: a context is no object, or has other things than texts there.
    """
    found: dict[str, str] = {}
    for file in files:
        try:
            arguments = arguments_as(_Argument, file)
        except msgspec.ValidationError as error:
            expected = 'expected {"context": {"topic": …, "discussionTitle": …}} with texts, or without'
            raise InputError(f"{file}: {error}; {expected}") from None
        found |= {argument.id: _topic(argument.context) for argument in arguments}
    return found


def _topic(context: _Context | None) -> str:
    return (context.topic or context.discussion_title or "") if context else ""
