"""Precision, recall and F1 of whole components, as conlleval counts, and the accuracy of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from seqeval.metrics import accuracy_score
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

from submission.text.written import form

Tags = Sequence[Sequence[str]]  # of some sequences


def measures(gold: Tags, found: Tags) -> dict[str, float]:
    """Precision, recall and F1 of components (same kind, first and last word), accuracy of words; in percent."""
    gold, found = [list(tags) for tags in gold], [list(tags) for tags in found]
    precision, recall, f1, _ = precision_recall_fscore_support(gold, found, average="micro", zero_division=0)
    values = {"precision": precision, "recall": recall, "F1": f1, "accuracy": accuracy_score(gold, found)}
    return {name: round(100 * float(value), 2) for name, value in values.items()}


class Majority:
    """Baseline: the most frequent tag of each word's form; of an unseen form, the most frequent tag."""

    def __init__(self, words: Tags, tags: Tags) -> None:
        """Count the tags of sequences; ties: the first met."""
        counts: dict[str, Counter[str]] = {}
        for own, its in zip(words, tags, strict=True):
            for word, tag in zip(own, its, strict=True):
                counts.setdefault(form(word), Counter())[tag] += 1
        self._tags = {word: count.most_common(1)[0][0] for word, count in counts.items()}
        self.most_frequent = sum(counts.values(), Counter[str]()).most_common(1)[0][0]

    def tags(self, words: Tags) -> list[list[str]]:
        """The tags of some sequences."""
        return [[self._tags.get(form(word), self.most_frequent) for word in own] for own in words]
