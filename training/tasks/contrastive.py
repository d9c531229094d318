"""Train with in-batch negatives and weak labels from query likelihood.

In-batch negatives: Karpukhin et al. 2020 (DPR, 3.2). Weak labels: Zamani et al. 2018 (3.2). Retrieval over all premises
selects the checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from msgspec import Meta
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from submission.inference.batching import Padded
from submission.inference.pretrained import Pretrained
from submission.models.ranker import LatentRanker, Ranker
from submission.text.token_ids import UNKNOWN
from training.data.pair_tables import Queries, TrainingPairs
from training.fitting.hyperparameters import Optimisation, Rate
from training.fitting.initialisation import NetworkOfTexts
from training.fitting.learning_curve import Curve
from training.fitting.pairwise_losses import l1
from training.fitting.recipe import Recipe, Settings
from training.fitting.trainable import Trainee
from training.fitting.validation import NDCG, RECALL, search
from training.tasks.pairs import Pairwise


class Contrastive(NetworkOfTexts, frozen=True):
    """Settings of in-batch training; negatives come from the micro-batch."""

    curve: ClassVar = Curve(
        "in-batch cross-entropy", ("MAP@20", NDCG, RECALL), NDCG,
        "%, 105 candidates per query or full collection", "queries",
    )  # fmt: skip
    networks: ClassVar = ("snrm",)
    temperature: Rate = 1.0  # softmax temperature
    weak: Annotated[float, Meta(ge=0, le=1)] = 0.5  # weight of the query-likelihood labels in the loss
    mu: Rate = 200.0  # Dirichlet prior of the language model

    def check(self, recipe: Settings) -> None:
        """Raise ValueError if the network or a pairwise-only setting does not fit."""
        name = recipe.ranker or recipe.enricher
        if name not in self.networks:
            raise ValueError(f"[contrastive] supports snrm, not {name}; change the network or the task table")
        if recipe.training.margin != Optimisation().margin:
            raise ValueError("training.margin applies to [pairs] only; remove it")

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> InBatch:
        """Load training pairs and validation queries. Raises InputError: the tables are missing."""
        return InBatch.of(recipe, trainee, work, device)


class InBatch(Pairwise):
    """Training arguments; a conclusion's negatives are the other premises of its micro-batch."""

    measured = "Percent, on queries with 5 positives and 100 negatives; of all: against all premises of the corpus."

    def __init__(
        self, pairs: TrainingPairs, queries: Queries, recipe: Recipe, device: torch.device, pretrained: Pretrained | None = None
    ) -> None:
        super().__init__(pairs, queries, recipe, device, pretrained)
        assert isinstance(recipe.task, Contrastive)
        self._settings = recipe.task
        self._conclusions = np.unique(pairs.queries.ids.numpy(), axis=0, return_inverse=True)[1].ravel()  # (N,)
        size = 1 + max(int(texts.ids.max()) for texts in (pairs.queries, pairs.premises))
        self._asked, self._said = _counts(pairs.queries, size), _counts(pairs.premises, size)  # (N, vocabulary)
        self._lengths = self._said.sum(1)
        frequencies = self._said.sum(0) + 0.5  # a query word may occur in no premise
        self._probabilities = frequencies / frequencies.sum()

    def loss(self, ranker: Ranker, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the batch loss; other micro-batches provide no negatives."""
        assert isinstance(ranker, LatentRanker)
        part = part[np.argsort(self._pairs.premises.lengths.numpy()[part], kind="stable")]  # batch texts of similar length
        query, premise = (
            ranker.represent_many(*texts.take(part, self._device)) for texts in (self._pairs.queries, self._pairs.premises)
        )
        scores = query @ premise.t() / self._settings.temperature  # (B, B), rows are queries
        diagonal = torch.eye(len(part), dtype=torch.bool, device=self._device)
        same_conclusion = torch.from_numpy(self._conclusions[part][:, None] == self._conclusions[part]).to(self._device)
        negatives_and_own = scores.masked_fill(same_conclusion & ~diagonal, -torch.inf)
        hard_loss = functional.cross_entropy(negatives_and_own, torch.arange(len(part)).to(self._device))
        weak_labels = torch.from_numpy(self.likelihoods(part)).to(scores).softmax(1)
        loss = torch.lerp(hard_loss, functional.cross_entropy(scores, weak_labels), self._settings.weak)
        return (loss + self._training.sparsity * l1(query, premise)) * (len(part) / len(rows))

    def likelihoods(self, part: np.ndarray) -> np.ndarray:
        """Return log query likelihoods (B, B) of every conclusion under every premise.

        Sums ln((tf + µp) / (dl + µ)) over the conclusion's words, without the constant ln p (Dirichlet smoothing, Zhai and
        Lafferty 2004). Uses the words that the network reads.
        """
        premise_counts, query_counts, mu = self._said[part].tocoo(), self._asked[part], self._settings.mu
        term_scores = np.log1p(premise_counts.data / (mu * self._probabilities[premise_counts.col]))
        weighted = csr_array((term_scores, (premise_counts.row, premise_counts.col)), premise_counts.shape)
        matches = query_counts @ weighted.T
        return np.asarray(matches.todense() + np.outer(query_counts.sum(1), np.log(mu / (self._lengths[part] + mu))))

    def _measured(self, ranker: Ranker, step: int, chosen: np.ndarray) -> dict[str, float]:
        assert isinstance(ranker, LatentRanker)
        metrics = search(ranker, self._queries, chosen, self._pairs.premises, self._device)
        return super()._measured(ranker, step, chosen) | metrics


def _counts(texts: Padded, words: int) -> csr_array:
    """Count the known words of each text, (N, words)."""
    ids = texts.ids.numpy()
    rows, positions = np.nonzero(ids > UNKNOWN)
    return csr_array((np.ones(len(rows)), (rows, ids[rows, positions])), (len(ids), words))
