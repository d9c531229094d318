"""The forms in which tables hold premises: as far towards ids as a text gets without a vocabulary."""

from __future__ import annotations

from collections.abc import Callable

from submission.text.ids import Reads
from submission.text.normalise import drop_urls, premise_words
from submission.text.tokenisers import Tokeniser

FORMS: dict[Reads, Callable[[str], str]] = {
    "words": lambda premise: " ".join(premise_words(premise)),
    "pieces": drop_urls,
}


def premise_ids(tokeniser: Tokeniser, reads: Reads, premise: str) -> list[int]:
    """The ids of a premise in its form; the same as those of the premise as written."""
    return tokeniser.ids(premise.split()[: tokeniser.lengths.premise]) if reads == "words" else tokeniser.premise(premise)
