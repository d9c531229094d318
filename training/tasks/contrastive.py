"""Learning to tell a conclusion's premise from all others of a batch, and from what a language model finds there.

In-batch negatives as in Karpukhin et al. 2020 (Dense Passage Retrieval, section 3.2); weak labels by a language model as in
Zamani et al. 2018, section 3.2. What a network finds among all premises picks the checkpoint.
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

from submission.rankers.base import LatentRanker, Ranker
from submission.scoring.batches import Padded
from submission.scoring.pretrained import Pretrained
from submission.text.ids import UNKNOWN
from training.data.prepare import prepare_again
from training.data.tables import Queries, TrainingPairs
from training.data.work import made as tables_of
from training.fitting.curves import Curve
from training.fitting.losses import l1
from training.fitting.network import NetworkOfTexts
from training.fitting.recipe import Recipe, Settings
from training.fitting.searching import NDCG, RECALL, search
from training.fitting.settings import Optimisation, Rate
from training.fitting.trainee import Trainee
from training.tasks.pairs import Pairwise


class Contrastive(NetworkOfTexts, frozen=True):
    """How a batch's premises are told apart; negatives are those of the micro batch."""

    curve: ClassVar = Curve(
        "cross-entropy over the batch", ("MAP@20", NDCG, RECALL), NDCG,
        "percent, 5 + 100 premises a query, or all premises", "queries",
    )  # fmt: skip
    networks: ClassVar = ("snrm",)
    temperature: Rate = 1.0  # what scores are divided by
    weak: Annotated[float, Meta(ge=0, le=1)] = 0.5  # the share of the language model's labels in the loss
    mu: Rate = 200.0  # of Dirichlet's prior in the language model, in words

    def check(self, recipe: Settings) -> None:
        """Raise ValueError where the network is another, or a setting is of pairs with a single unrelated premise."""
        name = recipe.ranker or recipe.enricher
        if name not in self.networks:
            raise ValueError(f"[contrastive] trains snrm, not {name}; change the network or the table")
        if recipe.training.margin != Optimisation().margin:
            raise ValueError("training.margin is of pairs, [contrastive] has no such setting; remove it")

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> InBatch:
        """Read the pairs and the validation queries. Raises InputError: they are missing."""
        return InBatch.of(recipe, trainee, work, device)

    def require(self, work: Path) -> None:
        """Raise InputError where a working directory has no tables."""
        tables_of(work)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the tables of the corpus in `source` again."""
        return prepare_again(source, work, made)


class InBatch(Pairwise):
    """Training arguments, each of whose conclusions has all premises of its micro batch to choose from."""

    measured = "Percent, over queries with 5 related and 100 unrelated premises; of all: with all premises of the corpus."

    def __init__(
        self, pairs: TrainingPairs, queries: Queries, recipe: Recipe, device: torch.device, pretrained: Pretrained | None = None
    ) -> None:
        super().__init__(pairs, queries, recipe, device, pretrained)
        assert isinstance(recipe.task, Contrastive)
        self._settings = recipe.task
        self._conclusions = np.unique(pairs.queries.ids.numpy(), axis=0, return_inverse=True)[1].ravel()  # (N,) numbers
        words = 1 + max(int(texts.ids.max()) for texts in (pairs.queries, pairs.premises))
        self._asked, self._said = _counts(pairs.queries, words), _counts(pairs.premises, words)  # (N, words)
        self._lengths = self._said.sum(1)
        frequencies = self._said.sum(0) + 0.5  # a query may have a word that no premise has
        self._probabilities = frequencies / frequencies.sum()

    def loss(self, ranker: Ranker, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """The part's share of the batch's mean; premises of the other parts are no negatives."""
        assert isinstance(ranker, LatentRanker)
        part = part[np.argsort(self._pairs.premises.lengths.numpy()[part], kind="stable")]  # texts side by side are as long
        query, premise = (
            ranker.represent_many(*texts.take(part, self._device)) for texts in (self._pairs.queries, self._pairs.premises)
        )
        scores = query @ premise.t() / self._settings.temperature  # (B, B), a row a query
        own = torch.eye(len(part), dtype=torch.bool, device=self._device)
        same = torch.from_numpy(self._conclusions[part][:, None] == self._conclusions[part]).to(self._device)
        hard = functional.cross_entropy(scores.masked_fill(same & ~own, -torch.inf), torch.arange(len(part)).to(self._device))
        labels = torch.from_numpy(self.likelihoods(part)).to(scores).softmax(1)
        value = torch.lerp(hard, functional.cross_entropy(scores, labels), self._settings.weak)
        return (value + self._training.sparsity * l1(query, premise)) * (len(part) / len(rows))

    def likelihoods(self, part: np.ndarray) -> np.ndarray:
        """Logarithms (B, B) of how likely each premise's language model makes each conclusion.

        The sum over the conclusion's words of ln((tf + µ p) / (dl + µ)), by a language model smoothed by Dirichlet's prior
        (Zhai and Lafferty 2004), without ln(p), which all premises have alike. The words are those that the network reads.
        """
        said, asked, mu = self._said[part].tocoo(), self._asked[part], self._settings.mu
        added = np.log1p(said.data / (mu * self._probabilities[said.col]))
        found = asked @ csr_array((added, (said.row, said.col)), said.shape).T
        return np.asarray(found.todense() + np.outer(asked.sum(1), np.log(mu / (self._lengths[part] + mu))))

    def _measured(self, ranker: Ranker, step: int, chosen: np.ndarray) -> dict[str, float]:
        assert isinstance(ranker, LatentRanker)
        found = search(ranker, self._queries, chosen, self._pairs.premises, self._device)
        return super()._measured(ranker, step, chosen) | found


def _counts(texts: Padded, words: int) -> csr_array:
    """Count the known words of each text, (N, words)."""
    ids = texts.ids.numpy()
    rows, places = np.nonzero(ids > UNKNOWN)
    return csr_array((np.ones(len(rows)), (rows, ids[rows, places])), (len(ids), words))
