"""Read topics and debate titles of args.me arguments, and exclude titles that paraphrase topics."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec
from rapidfuzz import fuzz, process

from aragorn.errors import abbreviate
from aragorn.io.files import build_record_error
from aragorn.io.touche import ArgumentWithContext, read_arguments
from aragorn.text.index_terms import TermAnalyser
from aragorn.text.normalisation import normalise

# minimum Levenshtein ratio (0-100) of a topic and a title that paraphrases it
SIMILARITY_THRESHOLD = 80
SITE_SEPARATOR = " | "  # separates the title of a source page from the portal's name


class _Context(msgspec.Struct, gc=False, rename="camel"):
    topic: str | None = None
    discussion_title: str | None = None
    source_title: str | None = None


def _read_contexts(file: Path) -> Iterator[tuple[str, _Context]]:
    """Yield docno and context of each argument of a file; a missing context has no fields."""
    decode = msgspec.json.Decoder(_Context | None).decode
    for argument in read_arguments(file, ArgumentWithContext):
        context = argument.context
        try:
            yield argument.id, (decode(context) if bytes(context) else None) or _Context()
        except (ValueError, RecursionError) as error:
            location = f"context of argument {abbreviate(argument.id)}"
            raise build_record_error(file, location, context, error, "expected texts") from None


def read_argument_topics(files: Sequence[Path]) -> dict[str, str]:
    """Read the topic of each argument by docno: `topic`, else `discussionTitle`, else ""."""
    contexts = chain.from_iterable(map(_read_contexts, files))
    return {docno: context.topic or context.discussion_title or "" for docno, context in contexts}


def read_debate_titles(files: Sequence[Path]) -> list[str]:
    """Read the debate titles of args.me files; return one title per normalised form, sorted by this
    form.

    A debate title is the title of an argument's discussion, else of its source page, without the
    portal's name. Titles with fewer than two words that contain a letter are skipped.
    """
    titles: dict[str, str] = {}
    for _, context in chain.from_iterable(map(_read_contexts, files)):
        page_title = (context.source_title or "").partition(SITE_SEPARATOR)[0]
        title = " ".join((context.discussion_title or page_title).split())
        normalised_title = normalise(title)
        if sum(any(map(str.isalpha, word)) for word in normalised_title.split()) >= 2:
            titles.setdefault(normalised_title, title)
    return [titles[normalised_title] for normalised_title in sorted(titles)]


def exclude_paraphrases(titles: Sequence[str], topics: Sequence[str]) -> list[str]:
    """Return the titles that paraphrase none of the topics.

    A title paraphrases a topic if the Levenshtein ratio of their sorted, normalised words is at
    least SIMILARITY_THRESHOLD, or if they share at least half of the stems of the text with fewer
    stems, and at least two unless it has a single stem.
    """
    ratios = process.cdist(
        titles, topics, scorer=fuzz.token_sort_ratio, processor=normalise
    )  # (titles, topics)
    terms = TermAnalyser("porter")
    topic_stems = [{*terms.analyse(topic)} for topic in topics]
    return [
        title
        for title, title_ratios in zip(titles, ratios, strict=True)
        if (title_ratios < SIMILARITY_THRESHOLD).all()
        and not any(_share_stems({*terms.analyse(title)}, stems) for stems in topic_stems)
    ]


def _share_stems(first: set[str], second: set[str]) -> bool:
    n_smaller = min(len(first), len(second))
    n_shared = len(first & second)
    return n_shared >= min(2, n_smaller) and 2 * n_shared >= n_smaller > 0
