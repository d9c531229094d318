"""Learning from pairs of a related and an unrelated premise by the pairwise hinge loss; MAP@20 picks the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from submission.rankers.base import LatentRanker, Ranker
from submission.scoring.pretrained import Pretrained
from submission.text.tokenisers import Tokeniser
from training.data.seeds import Stream, generator
from training.data.tables import Pairs, Queries, load_pairs, load_validation
from training.data.work import made
from training.fitting import losses
from training.fitting.card import ARGS_ME
from training.fitting.cosine import by_cosine
from training.fitting.curves import PAIRS
from training.fitting.network import Trainee
from training.fitting.recipe import Recipe
from training.fitting.task import Task, dead, diverged
from training.fitting.validation import Scorer, by_bm25, by_ranker, sparsity, validate

BM25, COSINE = "bm25 over premises", "cosine of the encoder"  # untrained


class Paired(Task[Ranker]):
    """Training arguments with a premise that does not belong to their conclusion, and the thesis' validation."""

    data = ARGS_ME
    measured = "Percent, over queries with 5 related and 100 unrelated premises."
    curve = PAIRS

    def __init__(
        self, pairs: Pairs, queries: Queries, recipe: Recipe, device: torch.device, pretrained: Pretrained | None = None
    ) -> None:
        self._pairs, self._queries, self._device, self._pretrained = pairs, queries, device, pretrained
        self._training = recipe.training
        self._everything = np.arange(len(queries.candidates))
        self._chosen = _part(self._everything, recipe)
        self.size, self.number = len(pairs.unrelated), len(self._everything)

    @classmethod
    def of(cls, recipe: Recipe, trainee: Trainee[Ranker, Tokeniser], work: Path, device: torch.device) -> Self:
        """From what `prepare` wrote. Raises InputError: nothing."""
        pairs = load_pairs(work, trainee.network.reads, trainee.reader)
        queries = load_validation(work, trainee.network.reads, trainee.reader)
        task, prepared = cls(pairs, queries, recipe, device, trainee.pretrained), made(work)
        task.decided_by = prepared.decided_by
        task.files = {name: file.xxh3 for name, file in prepared.files.items()}
        return task

    def loss(self, ranker: Ranker, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """The part's share of the batch's mean."""
        pairs = self._pairs
        query, related, unrelated = (
            texts.take(numbers, self._device)
            for texts, numbers in ((pairs.queries, part), (pairs.premises, part), (pairs.premises, pairs.unrelated[part]))
        )
        value = losses.loss(ranker, query, related, unrelated, self._training.margin, self._training.sparsity)
        return value * (len(part) / len(rows))

    def baselines(self) -> dict[str, dict[str, float]]:
        """BM25 over the premises, and the cosine of the pretrained encoder if there is one."""
        scorers: dict[str, Scorer] = {BM25: by_bm25}
        if self._pretrained:
            scorers[COSINE] = by_cosine(self._pretrained, self._device)
        return {name: validate(self._queries, self._everything, scorer)[0] for name, scorer in scorers.items()}

    def validated(self, ranker: Ranker, step: int) -> dict[str, float]:
        """MRR, MAP and nDCG at 20 over the queries that pick the checkpoint."""
        return self._measured(ranker, step, self._chosen)

    def final(self, ranker: Ranker, step: int) -> dict[str, float]:
        """The same over all queries."""
        return self._measured(ranker, step, self._everything)

    def _measured(self, ranker: Ranker, step: int, chosen: np.ndarray) -> dict[str, float]:
        try:
            values, tied = validate(self._queries, chosen, by_ranker(ranker, self._device))
        except FloatingPointError as error:
            raise diverged(step, str(error)) from None
        if tied:
            raise dead(step)
        return values | (sparsity(ranker, self._queries, chosen, self._device) if isinstance(ranker, LatentRanker) else {})


def _part(everything: np.ndarray, recipe: Recipe) -> np.ndarray:
    """The queries that pick the checkpoint: a fixed seeded part, or all."""
    number = recipe.training.validation_queries
    return np.sort(generator(recipe.seed, Stream.QUERIES).permutation(everything)[:number]) if number else everything
