"""Documents → those that are learned from, those that pick the network, and those that tell what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training.data.conll import Document
from training.data.seeds import Stream, generator

TEST, DEV = 0.2, 0.1  # shares of the documents


@dataclass(frozen=True)
class Split:
    """The three parts; no document is in two of them."""

    train: list[Document]
    dev: list[Document]
    test: list[Document]

    def __add__(self, other: Split) -> Split:
        """Of two data sets."""
        return Split(self.train + other.train, self.dev + other.dev, self.test + other.test)


def split(documents: Sequence[Document], seed: int) -> Split:
    """The split of a data set by a seed, at random; a document of each kind at least where there are three."""
    order = [documents[number] for number in generator(seed, Stream.SPLIT).permutation(len(documents))]
    test = max(1, round(TEST * len(order)))
    dev = test + max(1, round(DEV * len(order)))
    return Split(train=order[dev:], dev=order[test:dev], test=order[:test])
