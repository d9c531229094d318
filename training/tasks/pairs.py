"""Train on pairs of positive and negative premises with a pairwise hinge loss; MAP@20 selects the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from submission.errors import InputError
from submission.inference.pretrained import Pretrained
from submission.models.ranker import LatentRanker, Ranker
from submission.storage.artifact_store import RECORD, read_record
from submission.text.tokenisers import Tokeniser
from training.cards import ARGS_ME
from training.data.pair_tables import Queries, TrainingPairs, load_pairs, load_validation
from training.data.pairs import prepare_again
from training.data.seeds import Stream, generator
from training.data.work_directory import made, unrelated_file
from training.fitting import pairwise_losses
from training.fitting.initialisation import NetworkOfTexts
from training.fitting.learning_curve import Curve
from training.fitting.recipe import Recipe, Settings
from training.fitting.task import Task, dead, diverged
from training.fitting.trainable import Trainee
from training.fitting.validation import Scorer, by_bm25, by_cosine, by_ranker, sparsity, validate

LISTWISE = ("tfr_bert",)  # rankers trained on lists only
BM25, COSINE = "bm25 over premises", "cosine of the encoder"  # baselines


class Pairs(NetworkOfTexts, frozen=True):
    """Settings of pairwise training."""

    curve: ClassVar = Curve(
        "pairwise hinge loss", ("MRR@20", "MAP@20", "nDCG@20"), "MAP@20", "%, 105 candidates per query", "queries"
    )
    unrelated: Literal["dirichlet"] | None = None  # retrieval model of hard negatives; None: least similar

    def told(self) -> dict[str, Any]:
        """Omit the default, so recipes without a task table stay unchanged."""
        return {} if self.unrelated is None else {"unrelated": self.unrelated}

    def check(self, recipe: Settings) -> None:
        """Raise ValueError if the network is not a pairwise ranker."""
        if recipe.ranker is None or recipe.ranker in LISTWISE:
            raise ValueError(f"{recipe.ranker or recipe.enricher} cannot be trained on pairs; add its task table")

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Pairwise:
        """Load training pairs and validation queries. Raises InputError: missing, or not of these tables."""
        return Pairwise.of(recipe, trainee, work, device, self.unrelated)

    def require(self, work: Path) -> None:
        """Raise InputError if the tables or hard negatives are missing."""
        _prepared(work, self.unrelated)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the tables of the corpus again."""
        return prepare_again(source, work, made, self.unrelated)


class Pairwise(Task[Ranker]):
    """Training pairs and the validation queries of Entezari 2020."""

    data = ARGS_ME
    measured = "Percent, on queries with 5 positives and 100 negatives."

    def __init__(
        self, pairs: TrainingPairs, queries: Queries, recipe: Recipe, device: torch.device, pretrained: Pretrained | None = None
    ) -> None:
        self._pairs, self._queries, self._device, self._pretrained = pairs, queries, device, pretrained
        self._training = recipe.training
        self._everything = np.arange(len(queries.candidates))
        self._chosen = _part(self._everything, recipe)
        self.size, self.number = len(pairs.unrelated), len(self._everything)

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        trainee: Trainee[Ranker, Tokeniser],
        work: Path,
        device: torch.device,
        unrelated: Literal["dirichlet"] | None = None,
    ) -> Self:
        """Load the data prepared by `prepare pairs`. Raises InputError: missing tables or hard negatives."""
        decided_by, files = _prepared(work, unrelated)
        pairs = load_pairs(work, trainee.network.reads, trainee.reader, unrelated)
        queries = load_validation(work, trainee.network.reads, trainee.reader)
        task = cls(pairs, queries, recipe, device, trainee.pretrained)
        task.decided_by, task.files = decided_by, files
        return task

    def loss(self, ranker: Ranker, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the batch loss."""
        pairs = self._pairs
        query, positive, negative = (
            texts.take(indices, self._device)
            for texts, indices in ((pairs.queries, part), (pairs.premises, part), (pairs.premises, pairs.unrelated[part]))
        )
        loss = pairwise_losses.loss(ranker, query, positive, negative, self._training.margin, self._training.sparsity)
        return loss * (len(part) / len(rows))

    def baselines(self) -> dict[str, dict[str, float]]:
        """Measure BM25 over the premises and, for BERT networks, the cosine of the untrained encoder."""
        scorers: dict[str, Scorer] = {BM25: by_bm25}
        if self._pretrained:
            scorers[COSINE] = by_cosine(self._pretrained, self._device)
        return {name: validate(self._queries, self._everything, scorer)[0] for name, scorer in scorers.items()}

    def validated(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Measure MRR, MAP and nDCG at 20 on the queries that select the checkpoint."""
        return self._measured(ranker, step, self._chosen)

    def final(self, ranker: Ranker, step: int) -> dict[str, float]:
        """Validate on all queries."""
        return self._measured(ranker, step, self._everything)

    def _measured(self, ranker: Ranker, step: int, chosen: np.ndarray) -> dict[str, float]:
        try:
            metrics, all_tied = validate(self._queries, chosen, by_ranker(ranker, self._device))
        except FloatingPointError as error:
            raise diverged(step, str(error)) from None
        if all_tied:
            raise dead(step)
        return metrics | (sparsity(ranker, self._queries, chosen, self._device) if isinstance(ranker, LatentRanker) else {})


def _prepared(work: Path, unrelated: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return record and file hashes of the tables. Raises InputError: missing tables or hard negatives."""
    tables = made(work)
    decided_by, files = tables.decided_by, {name: file.xxh3 for name, file in tables.files.items()}
    if unrelated is None:
        return decided_by, files
    path = unrelated_file(work, unrelated)
    record = read_record(path.parent / RECORD)
    if path.name not in record.files or not decided_by.items() <= record.decided_by.items():
        command = f"`python -m training prepare pairs -i INPUT --work {work} --unrelated {unrelated}`"
        raise InputError(f"{path}: missing or built from other tables; run {command}")
    return record.decided_by, files | {path.name: record.files[path.name].xxh3}


def _part(everything: np.ndarray, recipe: Recipe) -> np.ndarray:
    """Return the queries that select the checkpoint: a seeded sample or all."""
    count = recipe.training.validation_queries
    return np.sort(generator(recipe.seed, Stream.QUERIES).permutation(everything)[:count]) if count else everything
