"""Train with in-batch negatives and weak labels from query likelihood.

In-batch negatives: Karpukhin et al. 2020 (DPR, section 3.2). Weak labels: Zamani et al. 2018
(section 3.2). nDCG@10 of retrieval over all premises selects the checkpoint.
"""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional

from aragorn.bounds import Positive, Share
from aragorn.models.network import LatentRanker, PaddedTexts, Ranker
from aragorn.text.tokenisers import UNKNOWN_ID
from aragorn_training.fitting.initialisation import TextNetworkSpec
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import CurveSpec, TrainableNetwork
from aragorn_training.fitting.validation import NDCG, RECALL, measure_full_collection
from aragorn_training.tasks.pairs import PairwiseTask, l1_norm


class ContrastiveSpec(TextNetworkSpec, frozen=True):
    """Settings of training with weak labels and the micro-batch's premises as negatives."""

    version: ClassVar[int] = 1

    curve: ClassVar = CurveSpec(
        "in-batch cross-entropy",
        ("MAP@20", NDCG, RECALL),
        NDCG,
        "%, 105 candidates per query or full collection",
        "queries",
    )
    supported_networks: ClassVar = ("snrm",)
    pairwise_only: ClassVar = ("margin",)
    validates_on_candidates: ClassVar = True
    temperature: Positive = 1.0  # softmax temperature
    # weight of the query-likelihood labels in the loss
    weak_label_weight: Share = 0.5
    mu: Positive = 200.0  # Dirichlet prior of the language model

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> PairwiseTask:
        """Load training pairs and validation queries."""
        return ContrastiveTask.load(recipe, trainee, work_dir, device)


class ContrastiveTask(PairwiseTask):
    """Training pairs with negatives from the micro-batch, and validation queries."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        assert isinstance(self._recipe.task, ContrastiveSpec)
        self._settings = self._recipe.task
        pairs = self._pairs
        self.metrics_description = (
            f"{self.metrics_description[:-1]}; full collection: all premises of the corpus."
        )
        _, ids = np.unique(pairs.queries.ids.numpy(), axis=0, return_inverse=True)
        self._conclusion_ids = ids.ravel()  # (N,)
        vocabulary_size = 1 + max(int(texts.ids.max()) for texts in (pairs.queries, pairs.premises))
        self._query_counts = _count_terms(pairs.queries, vocabulary_size)  # (N, vocabulary)
        self._premise_counts = _count_terms(pairs.premises, vocabulary_size)
        self._premise_lengths = self._premise_counts.sum(1)
        frequencies = self._premise_counts.sum(0) + 0.5  # a query word may occur in no premise
        self._collection_probabilities = frequencies / frequencies.sum()

    def compute_loss(self, ranker: Ranker, micro_batch: np.ndarray, batch: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the loss; its negatives are from itself."""
        assert isinstance(ranker, LatentRanker)
        lengths = self._pairs.premises.lengths.numpy()[micro_batch]
        # texts of similar length are encoded together
        micro_batch = micro_batch[np.argsort(lengths, kind="stable")]
        query = ranker.encode_batch(*self._pairs.queries.batch(micro_batch, self._device))
        premise = ranker.encode_batch(*self._pairs.premises.batch(micro_batch, self._device))
        scores = query @ premise.t() / self._settings.temperature  # (B, B), rows are queries
        diagonal = torch.eye(len(micro_batch), dtype=torch.bool, device=self._device)
        conclusions = self._conclusion_ids[micro_batch]
        same_conclusion = torch.from_numpy(conclusions[:, None] == conclusions).to(self._device)
        candidate_scores = scores.masked_fill(same_conclusion & ~diagonal, -torch.inf)
        positives = torch.arange(len(micro_batch)).to(self._device)
        hard_loss = functional.cross_entropy(candidate_scores, positives)
        likelihoods = torch.from_numpy(self.compute_query_log_likelihoods(micro_batch))
        weak_loss = functional.cross_entropy(scores, likelihoods.to(scores).softmax(1))
        loss = torch.lerp(hard_loss, weak_loss, self._settings.weak_label_weight)
        loss = loss + self._training.l1_weight * l1_norm(query, premise)
        return loss * (len(micro_batch) / len(batch))

    def compute_query_log_likelihoods(self, micro_batch: np.ndarray) -> np.ndarray:
        """Return the query log-likelihoods (B, B) of conclusions (rows) for premises (columns), up
        to a constant per row.

        They are sums of ln((tf + µp) / (dl + µ)) - ln p over the conclusion's words (Dirichlet
        smoothing, Zhai and Lafferty 2004); tf: frequency in the premise, dl: its length, p: share
        of premise words. Texts are truncated as for the network.
        """
        premise_counts = self._premise_counts[micro_batch].tocoo()
        query_counts = self._query_counts[micro_batch]
        mu = self._settings.mu
        expected_counts = mu * self._collection_probabilities[premise_counts.col]
        term_scores = np.log1p(premise_counts.data / expected_counts)
        positions = (premise_counts.row, premise_counts.col)
        score_matrix = csr_array((term_scores, positions), premise_counts.shape)
        matches = (query_counts @ score_matrix.T).todense()
        length_terms = np.log(mu / (self._premise_lengths[micro_batch] + mu))
        return np.asarray(matches + np.outer(query_counts.sum(1), length_terms))

    def _validate(self, ranker: Ranker, step: int, query_rows: np.ndarray) -> dict[str, float]:
        assert isinstance(ranker, LatentRanker)
        metrics = measure_full_collection(
            ranker, self._queries, query_rows, self._pairs.premises, self._device
        )
        return super()._validate(ranker, step, query_rows) | metrics


def _count_terms(texts: PaddedTexts, vocabulary_size: int) -> csr_array:
    """Return the counts (N, vocabulary_size) of the known words of each text."""
    ids = texts.ids.numpy()
    rows, positions = np.nonzero(ids > UNKNOWN_ID)
    return csr_array(
        (np.ones(len(rows)), (rows, ids[rows, positions])), (len(ids), vocabulary_size)
    )
