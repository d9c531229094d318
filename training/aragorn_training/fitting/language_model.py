"""Define the bidirectional language model that pre-trains a tagger's layers.

Dai, Le: Semi-supervised Sequence Learning. NIPS 2015. Peters et al.: Semi-supervised sequence
tagging with bidirectional language models. ACL 2017.

Shapes as in the TARGER network; V vocabulary rows, including those for padding and unknown words; M
predicted words.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.errors import CheckpointError, abbreviate
from aragorn.inference.checkpoint import (
    PROBE_TEXTS,
    PROBE_TEXTS_CHANGED,
    TOLERANCE,
    NetworkCheckpoint,
    build_from_config,
)
from aragorn.models.taggers.targer import TARGER
from aragorn.text.surface_tokens import SurfacePassage, SurfaceTokeniser
from aragorn.text.tokenisers import FIRST_TERM_ID, UNKNOWN_ID

# copied into a tagger
TRANSFERRED_LAYERS = (
    "embedding.",
    "char_embedding.",
    "convolution.",
    "forward_rnn.",
    "backward_rnn.",
)


class LanguageModel(TARGER):
    """Language model of both directions on a tagger's layers, with shared output embeddings."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.predict_next, self.predict_previous = (
            nn.Linear(config.hidden, config.dimensions) for _ in range(2)
        )
        self.output_embedding = nn.Embedding(config.vocabulary, config.dimensions)
        self.output_bias = nn.Embedding(config.vocabulary, 1)
        nn.init.zeros_(self.output_bias.weight)

    def predict(self, passages: Sequence[SurfacePassage]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield predicted vectors (M, E) and target ids (M,) per direction, forward first, of known
        words that have a context."""
        ids, letters, words, mask = self.collate(passages)
        ahead, back = self.encode(ids, letters, words, mask)
        token_ids = ids[words]  # (B, L)
        directions = (
            (self.predict_next, ahead[:, :-1], token_ids[:, 1:]),
            (self.predict_previous, back[:, 1:], token_ids[:, :-1]),
        )
        for project, states, targets in directions:
            is_known = mask[:, 1:] & (targets > UNKNOWN_ID)
            yield project(self.output_dropout(states[is_known])), targets[is_known]

    def compute_softmax_loss(
        self, vectors: Tensor, targets: Tensor, sample: Tensor, log_expected_counts: Tensor
    ) -> Tensor:
        """Return the mean negative log-likelihood of target ids (M,), M ≥ 1, a scalar, for
        predicted vectors (M, E), estimated by softmax over ids (N,) sampled with replacement.

        The logarithms (V,) of the words' expected counts in the sample correct for its distribution
        (Bengio and Senécal 2003).
        """
        # (M,)
        target_scores = (vectors * self.output_embedding(targets)).sum(1) + self.output_bias(
            targets
        ).squeeze(1)
        bias = self.output_bias(sample).squeeze(1)
        # (M, N)
        sample_scores = (
            vectors @ self.output_embedding(sample).T + bias - log_expected_counts[sample]
        )
        sample_scores = sample_scores.masked_fill(sample == targets[:, None], -torch.inf)
        return functional.softplus(sample_scores.logsumexp(1) - target_scores).mean()

    def score_words(self, vectors: Tensor) -> Tensor:
        """Return the scores (M, V) of all words for vectors (M, E); -inf for no known word."""
        scores = vectors @ self.output_embedding.weight.T + self.output_bias.weight.squeeze(1)
        scores[:, :FIRST_TERM_ID] = -torch.inf
        return scores


class _ProbeRow(msgspec.Struct):
    """A probe text, and the mean log-likelihoods of its passages per direction."""

    text: str
    log_likelihoods: list[float]

    def check_reproduced(self, file: Path, recomputed: Self) -> None:
        """Raise CheckpointError if the recomputed log-likelihoods differ."""
        if self.text != recomputed.text:
            raise CheckpointError(f"{file}: {PROBE_TEXTS_CHANGED}")
        actual, expected = (torch.tensor(row.log_likelihoods) for row in (recomputed, self))
        if actual.shape != expected.shape or not torch.allclose(
            actual, expected, rtol=TOLERANCE, atol=TOLERANCE
        ):
            raise CheckpointError(
                f"{file}: log-likelihoods of {abbreviate(self.text, 40)!r} are "
                f"{recomputed.log_likelihoods}, expected "
                f"{self.log_likelihoods}: the text processing or the network has changed; retrain "
                "the network"
            )


class LanguageModelCheckpoint(NetworkCheckpoint[LanguageModel, SurfaceTokeniser]):
    """A loaded checkpoint of a language model, with the tokeniser of its input texts."""

    name_key = "model"
    probe_type = _ProbeRow

    @staticmethod
    def find_network_class(name: str) -> type[LanguageModel]:
        return LanguageModel

    @classmethod
    def build(cls, directory: Path, config: Any) -> tuple[LanguageModel, SurfaceTokeniser]:
        model = build_from_config(LanguageModel, config["config"])
        return model, SurfaceTokeniser.load(directory, model.config)

    @staticmethod
    def run_probe(network: LanguageModel, tokeniser: SurfaceTokeniser) -> list[_ProbeRow]:
        """Compute the log-likelihoods of the probe texts, one passage at a time."""
        rows = []
        for text in PROBE_TEXTS:
            log_likelihoods = [
                network.score_words(vectors)
                .log_softmax(1)
                .gather(1, targets[:, None])
                .mean()
                .item()
                if len(targets)
                else 0.0
                for passage in tokeniser.split(text)
                for vectors, targets in network.predict([passage])
            ]
            rows.append(_ProbeRow(text, log_likelihoods))
        return rows
