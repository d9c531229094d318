"""Documents → those that are learned from, and those that tell what a network is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training.data.conll import Document
from training.data.seeds import Stream, generator

TEST = 0.2  # of the documents


@dataclass(frozen=True)
class Split:
    """The two parts; no document is in both."""

    train: list[Document]
    test: list[Document]

    def __add__(self, other: Split) -> Split:
        """Join the splits of two data sets."""
        return Split(self.train + other.train, self.test + other.test)


def split(documents: Sequence[Document], seed: int) -> Split:
    """The split of a data set by a seed, at random; a document of each kind at least where there are two."""
    order = [documents[number] for number in generator(seed, Stream.SPLIT).permutation(len(documents))]
    test = max(1, round(TEST * len(order)))
    return Split(train=order[test:], test=order[:test])
