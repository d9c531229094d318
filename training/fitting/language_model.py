"""A bidirectional language model that pre-trains a tagger's layers.

Dai, Le: Semi-supervised Sequence Learning. NIPS 2015. Peters et al.: Semi-supervised sequence tagging with bidirectional
language models. ACL 2017.

Shapes as in the TARGER network; V vocabulary rows with padding and unknown, M predicted words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.errors import CheckpointError, short
from submission.inference.checkpoint_io import OTHER_TEXTS, Kind, configured
from submission.inference.enricher_checkpoint import TEXTS
from submission.inference.probe import TOLERANCE
from submission.models.enrichers.targer import TARGER
from submission.text.surface_tokens import WrittenPassage, WrittenReader
from submission.text.token_ids import FIRST, UNKNOWN

LEARNED = ("embedding.", "letters.", "convolution.", "ahead.", "back.")  # layers copied into a tagger


class LanguageModel(TARGER):
    """A tagger's layers with one projection per direction, scored against output embeddings of all words."""

    def __init__(self, config: Any) -> None:
        """Create the layers.

        Raises:
            ValueError: see TARGER.
        """
        super().__init__(config)
        self.guess_ahead, self.guess_back = (nn.Linear(config.hidden, config.dimensions) for _ in range(2))
        self.word = nn.Embedding(config.vocabulary, config.dimensions)
        self.frequency = nn.Embedding(config.vocabulary, 1)
        nn.init.zeros_(self.frequency.weight)

    @torch.no_grad()
    def guess_by(self, vectors: Tensor) -> None:
        """Initialise the output embeddings with vectors (V, E)."""
        self.word.weight.copy_(vectors)

    def guesses(self, passages: Sequence[WrittenPassage]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield predicted vectors (M, E) and target ids (M,) per direction, forward first.

        Skips unknown words and words without context.
        """
        ids, letters, words, mask = self.batch(passages)
        ahead, back = self.states(ids, letters, words, mask)
        token_ids = ids[words]  # (B, L)
        directions = (
            (self.guess_ahead, ahead[:, :-1], token_ids[:, 1:]),
            (self.guess_back, back[:, 1:], token_ids[:, :-1]),
        )
        for project, states, targets in directions:
            is_known = mask[:, 1:] & (targets > UNKNOWN)
            yield project(self.output_dropout(states[is_known])), targets[is_known]

    def sampled_loss(self, guessed: Tensor, targets: Tensor, sample: Tensor, expected: Tensor) -> Tensor:
        """Return the mean negative log-likelihood by sampled softmax.

        Args:
            guessed: (M, E), M ≥ 1.
            targets: (M,) int64.
            sample: (N,) int64, drawn with replacement.
            expected: (V,) log expected counts in the sample; corrects for the sampling distribution (Bengio and Senécal 2003).
        """
        target_scores = (guessed * self.word(targets)).sum(1) + self.frequency(targets).squeeze(1)  # (M,)
        sample_scores = guessed @ self.word(sample).T + self.frequency(sample).squeeze(1) - expected[sample]  # (M, N)
        sample_scores = sample_scores.masked_fill(sample == targets[:, None], -torch.inf)
        return functional.softplus(sample_scores.logsumexp(1) - target_scores).mean()

    def scores(self, guessed: Tensor) -> Tensor:
        """Score all words (M, V) for predicted vectors (M, E); padding and unknown get -inf."""
        scores = guessed @ self.word.weight.T + self.frequency.weight.squeeze(1)
        scores[:, :FIRST] = -torch.inf
        return scores


class _Config(msgspec.Struct, forbid_unknown_fields=True):
    """config.json without its version."""

    model: str
    config: dict[str, Any]


class _Probed(msgspec.Struct):
    """A probe text and the mean log-likelihoods of its passages per direction."""

    text: str
    likelihoods: list[float]

    def refuse_other(self, file: Path, found: _Probed) -> None:
        """Raise CheckpointError if the results differ."""
        if self.text != found.text:
            raise CheckpointError(f"{file}: {OTHER_TEXTS}")
        new, old = (torch.tensor(row.likelihoods) for row in (found, self))
        if new.shape != old.shape or not torch.allclose(new, old, rtol=TOLERANCE, atol=TOLERANCE):
            raise CheckpointError(
                f"{file}: log-likelihoods of {short(self.text, 40)!r} are {found.likelihoods}, expected {self.likelihoods}: "
                "text processing or network has changed; train the checkpoint again"
            )


def _built(directory: Path, config: Any) -> tuple[LanguageModel, WrittenReader]:
    model = configured(LanguageModel, msgspec.convert(config, _Config).config)
    return model, WrittenReader.load(directory, model.config)


def _probed(model: LanguageModel, reader: WrittenReader) -> list[_Probed]:
    """Compute the probe, each passage alone."""
    rows = []
    for text in TEXTS:
        likelihoods = [
            model.scores(predicted).log_softmax(1).gather(1, targets[:, None]).mean().item() if len(targets) else 0.0
            for passage in reader.passages(text)
            for predicted, targets in model.guesses([passage])
        ]
        rows.append(_Probed(text, likelihoods))
    return rows


LANGUAGE: Kind[LanguageModel, WrittenReader] = Kind("model", _built, _probed, _Probed, settings=lambda reader: {})
