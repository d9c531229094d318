"""A bidirectional language model around a tagger's layers, for pre-training.

Dai, Le: Semi-supervised Sequence Learning. NIPS 2015. Peters et al.: Semi-supervised sequence tagging with bidirectional
language models. ACL 2017.

Shapes: as in `submission.enrichment.targer`; V words of the vocabulary, with padding and unknown; M words that are guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.enrichment.checkpoint import TEXTS
from submission.enrichment.targer import TARGER
from submission.errors import CheckpointError, short
from submission.scoring.probe import TOLERANCE
from submission.scoring.stored import OTHER_TEXTS, Kind, configured
from submission.text.ids import UNKNOWN
from submission.text.vocabulary import FIRST
from submission.text.written import WrittenPassage, WrittenReader

LEARNED = ("embedding.", "letters.", "convolution.", "ahead.", "back.")  # what a tagger starts from


class LanguageModel(TARGER):
    """A tagger's layers; a line from what each direction says to a word's vector, which is compared with those of all words."""

    def __init__(self, config: Any) -> None:
        """Raises ValueError as a tagger's."""
        super().__init__(config)
        self.guess_ahead, self.guess_back = (nn.Linear(config.hidden, config.dimensions) for _ in range(2))
        self.word = nn.Embedding(config.vocabulary, config.dimensions)
        self.frequency = nn.Embedding(config.vocabulary, 1)
        nn.init.zeros_(self.frequency.weight)

    @torch.no_grad()
    def guess_by(self, vectors: Tensor) -> None:
        """Compare with these vectors (V, E), to begin with."""
        self.word.weight.copy_(vectors)

    def guesses(self, passages: Sequence[WrittenPassage]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each direction, ahead first: the guessed vectors (M, E), and the ids (M,) of the words that are there.

        Words that the vocabulary does not have are not guessed, nor is a passage's first from what is before it.
        """
        ids, letters, words, mask = self.batch(passages)
        ahead, back = self.states(ids, letters, words, mask)
        written = ids[words]  # (B, L)
        ways = (
            (self.guess_ahead, ahead[:, :-1], written[:, 1:]),
            (self.guess_back, back[:, 1:], written[:, :-1]),
        )
        for guess, states, targets in ways:
            known = mask[:, 1:] & (targets > UNKNOWN)
            yield guess(self.output_dropout(states[known])), targets[known]

    def sampled_loss(self, guessed: Tensor, targets: Tensor, sample: Tensor, expected: Tensor) -> Tensor:
        """The mean negative log-likelihood of the words that are there, with what a sample says of all the others.

        Args:
            guessed: (M, E), one at least.
            targets: (M,) int64.
            sample: (N,) int64, drawn with replacement.
            expected: (V,), the logarithm of how often each word is drawn in the mean: what is drawn often counts less, so that
                in the mean the sum is that over all words (importance sampling, Bengio and Senécal, AISTATS 2003).
        """
        right = (guessed * self.word(targets)).sum(1) + self.frequency(targets).squeeze(1)  # (M,)
        others = guessed @ self.word(sample).T + self.frequency(sample).squeeze(1) - expected[sample]  # (M, N)
        others = others.masked_fill(sample == targets[:, None], -torch.inf)
        return functional.softplus(others.logsumexp(1) - right).mean()

    def scores(self, guessed: Tensor) -> Tensor:
        """Score all words of the vocabulary, (M, V), for guessed vectors (M, E); padding and unknown get minus infinity."""
        found = guessed @ self.word.weight.T + self.frequency.weight.squeeze(1)
        found[:, :FIRST] = -torch.inf
        return found


class _Config(msgspec.Struct, forbid_unknown_fields=True):
    """The content of config.json, without the version."""

    model: str
    config: dict[str, Any]


class _Probed(msgspec.Struct):
    """A text, and the mean log-likelihood of its words by either direction, passage for passage."""

    text: str
    likelihoods: list[float]

    def refuse_other(self, file: Path, found: _Probed) -> None:
        """Compare what was written with what comes out now. Raises CheckpointError."""
        if self.text != found.text:
            raise CheckpointError(f"{file}: {OTHER_TEXTS}")
        new, old = (torch.tensor(one.likelihoods) for one in (found, self))
        if new.shape != old.shape or not torch.allclose(new, old, rtol=TOLERANCE, atol=TOLERANCE):
            raise CheckpointError(
                f"{file}: of {short(self.text, 40)!r} this code says {found.likelihoods}, the checkpoint {self.likelihoods}: "
                "the text processing or the network has changed; train it again"
            )


def _built(directory: Path, given: Any) -> tuple[LanguageModel, WrittenReader]:
    model = configured(LanguageModel, msgspec.convert(given, _Config).config)
    return model, WrittenReader.load(directory, model.config)


def _probed(model: LanguageModel, reader: WrittenReader) -> list[_Probed]:
    """Each passage is computed alone."""
    rows = []
    for text in TEXTS:
        found = [
            model.scores(guessed).log_softmax(1).gather(1, targets[:, None]).mean().item() if len(targets) else 0.0
            for passage in reader.passages(text)
            for guessed, targets in model.guesses([passage])
        ]
        rows.append(_Probed(text, found))
    return rows


LANGUAGE: Kind[LanguageModel, WrittenReader] = Kind("model", _built, _probed, _Probed, settings=lambda reader: {})
