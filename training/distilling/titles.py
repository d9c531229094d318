"""The titles of a corpus' debates: topics that nobody judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rapidfuzz import fuzz, process

from submission.input.arguments_lines import arguments_as
from submission.input.files import reading
from submission.text.normalise import normalise
from submission.text.terms import Terms

ALIKE = 80  # of 100: a ratio by which a title is a topic in other words
SITE = " | "  # what the name of a portal stands behind


class _Context(msgspec.Struct, gc=False, frozen=True):
    discussion: str | None = msgspec.field(default=None, name="discussionTitle")
    source: str | None = msgspec.field(default=None, name="sourceTitle")


class _Argument(msgspec.Struct, gc=False):
    context: _Context = _Context()


def titles_of(files: Sequence[Path]) -> list[str]:
    """The titles of the debates in args.me files, by the letters of their normalised forms, each of which occurs once.

    Of an argument the title of its discussion or, without one, of the page that it is from. One without two words is no topic.

    Raises:
        InputError: a file cannot be read.
    """
    found: dict[str, str] = {}
    for file in files:
        with reading(file):
            arguments = arguments_as(_Argument, file)
        for argument in arguments:
            title = argument.context.discussion or (argument.context.source or "").partition(SITE)[0]
            title = " ".join(title.split())
            words = normalise(title)
            if sum(any(map(str.isalpha, word)) for word in words.split()) >= 2:
                found.setdefault(words, title)
    return [found[words] for words in sorted(found)]


def unlike(titles: Sequence[str], topics: Sequence[str]) -> list[str]:
    """The titles that are none of some topics in other words.

    A title is a topic in other words if the Levenshtein ratio of both, normalised and their words in alphabetical order, is 80
    of 100 or more; or if both have at least half of the stems of the one that has fewer, two of them or all that it has.
    """
    own, others = [normalise(title) for title in titles], [normalise(topic) for topic in topics]
    ratios = process.cdist(own, others, scorer=fuzz.token_sort_ratio)  # (titles, topics)
    stemmed = Terms("porter")
    stems, of_topics = ([set(stemmed.of(text)) for text in texts] for texts in (titles, topics))
    return [
        title
        for title, ratio, own_stems in zip(titles, ratios, stems, strict=True)
        if (ratio < ALIKE).all() and not any(_share(own_stems, other) for other in of_topics)
    ]


def _share(one: set[str], other: set[str]) -> bool:
    fewer, both = min(len(one), len(other)), len(one & other)
    return both >= min(2, fewer) and 2 * both >= fewer > 0
