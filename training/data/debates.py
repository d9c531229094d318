"""Read the topics of args.me arguments, and the titles of debates, from their contexts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rapidfuzz import fuzz, process

from submission.data.args_me_records import decode_arguments
from submission.data.input_files import as_input_errors
from submission.errors import InputError
from submission.text.index_terms import TermAnalyser
from submission.text.normalisation import normalise

SIMILARITY_THRESHOLD = 80  # of 100: Levenshtein ratio from which a title counts as a topic
SITE_SEPARATOR = " | "  # precedes the portal's name


class _Context(msgspec.Struct, rename="camel"):
    topic: str | None = None
    discussion_title: str | None = None


class _Argument(msgspec.Struct):
    id: str
    context: _Context | None = None


def read_topics(files: Sequence[Path]) -> dict[str, str]:
    """Return the topic of each argument by docno: `topic`, else `discussionTitle`, else ""."""
    topics: dict[str, str] = {}
    for file in files:
        try:
            arguments = decode_arguments(_Argument, file)
        except msgspec.ValidationError as error:
            expected = 'expected {"context": {"topic": …, "discussionTitle": …}} with string values'
            raise InputError(f"{file}: {error}; {expected}") from None
        for argument in arguments:
            context = argument.context or _Context()
            topics[argument.id] = context.topic or context.discussion_title or ""
    return topics


class _TitleContext(msgspec.Struct, gc=False, frozen=True):
    discussion: str | None = msgspec.field(default=None, name="discussionTitle")
    source: str | None = msgspec.field(default=None, name="sourceTitle")


class _TitledArgument(msgspec.Struct, gc=False):
    context: _TitleContext = _TitleContext()


def read_debate_titles(files: Sequence[Path]) -> list[str]:
    """Return the distinct debate titles of args.me files, sorted by normalised form.

    The title is that of the discussion, else of the source page. Titles of fewer than two words are skipped.
    """
    titles: dict[str, str] = {}
    for file in files:
        with as_input_errors(file):
            arguments = decode_arguments(_TitledArgument, file)
        for argument in arguments:
            title = argument.context.discussion or (argument.context.source or "").partition(SITE_SEPARATOR)[0]
            title = " ".join(title.split())
            normalised = normalise(title)
            if sum(any(map(str.isalpha, word)) for word in normalised.split()) >= 2:
                titles.setdefault(normalised, title)
    return [titles[normalised] for normalised in sorted(titles)]


def exclude_similar(titles: Sequence[str], topics: Sequence[str]) -> list[str]:
    """Return the titles that paraphrase none of the topics.

    A title paraphrases a topic if the Levenshtein ratio of both, normalised and with sorted words, is at least 80, or if they
    share at least half of the stems of the shorter one (at least two, or all).
    """
    normalised_titles, normalised_topics = ([normalise(text) for text in texts] for texts in (titles, topics))
    ratios = process.cdist(normalised_titles, normalised_topics, scorer=fuzz.token_sort_ratio)  # (titles, topics)
    terms = TermAnalyser("porter")
    title_stems, topic_stems = ([set(terms.analyse(text)) for text in texts] for texts in (titles, topics))
    return [
        title
        for title, title_ratios, stems in zip(titles, ratios, title_stems, strict=True)
        if (title_ratios < SIMILARITY_THRESHOLD).all() and not any(_share_stems(stems, topic) for topic in topic_stems)
    ]


def _share_stems(first: set[str], second: set[str]) -> bool:
    fewer, shared = min(len(first), len(second)), len(first & second)
    return shared >= min(2, fewer) and 2 * shared >= fewer > 0
