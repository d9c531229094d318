"""Measure component precision, recall and F1 (as conlleval does) and token accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from seqeval.metrics import accuracy_score
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

from submission.text.surface_tokens import normalise_token

TagSequences = Sequence[Sequence[str]]  # one tag sequence per text


def component_metrics(gold: TagSequences, predicted: TagSequences) -> dict[str, float]:
    """Return precision, recall and F1 of exact components and token accuracy, in percent."""
    gold, predicted = [list(tags) for tags in gold], [list(tags) for tags in predicted]
    precision, recall, f1, _ = precision_recall_fscore_support(gold, predicted, average="micro", zero_division=0)
    values = {"precision": precision, "recall": recall, "F1": f1, "accuracy": accuracy_score(gold, predicted)}
    return {name: round(100 * float(value), 2) for name, value in values.items()}


class MajorityTagger:
    """Baseline that predicts the most frequent tag of each word, or overall for unseen words."""

    def __init__(self, words: TagSequences, tags: TagSequences) -> None:
        """Count tags per word; the first tag wins a tie."""
        counts: dict[str, Counter[str]] = {}
        for sequence, sequence_tags in zip(words, tags, strict=True):
            for word, tag in zip(sequence, sequence_tags, strict=True):
                counts.setdefault(normalise_token(word), Counter())[tag] += 1
        self._tags = {word: count.most_common(1)[0][0] for word, count in counts.items()}
        self.most_frequent = sum(counts.values(), Counter[str]()).most_common(1)[0][0]

    def predict(self, words: TagSequences) -> list[list[str]]:
        """Predict the tags of sequences."""
        return [[self._tags.get(normalise_token(word), self.most_frequent) for word in sequence] for sequence in words]
