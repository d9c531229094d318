"""Read the topics of args.me arguments from their contexts."""

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
    """Return the topic of each argument by docno: `topic`, else `discussionTitle`, else "".

    Args:
        files: corpus files that `read_documents` accepts.

    Raises:
        InputError: a context is malformed.
    """
    topics: dict[str, str] = {}
    for file in files:
        try:
            arguments = arguments_as(_Argument, file)
        except msgspec.ValidationError as error:
            expected = 'expected {"context": {"topic": …, "discussionTitle": …}} with string values'
            raise InputError(f"{file}: {error}; {expected}") from None
        topics |= {argument.id: _topic(argument.context) for argument in arguments}
    return topics


def _topic(context: _Context | None) -> str:
    return (context.topic or context.discussion_title or "") if context else ""
