"""Learning from pairs of a related and an unrelated premise by the pairwise hinge loss; MAP@20 picks the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from submission.disk.kept import RECORD, read_record
from submission.errors import InputError
from submission.rankers.base import LatentRanker, Ranker
from submission.scoring.pretrained import Pretrained
from submission.text.tokenisers import Tokeniser
from training.cards import ARGS_ME
from training.data.prepare import prepare_again
from training.data.seeds import Stream, generator
from training.data.tables import Queries, TrainingPairs, load_pairs, load_validation
from training.data.work import made, unrelated_file
from training.fitting import losses
from training.fitting.cosine import by_cosine
from training.fitting.curves import Curve
from training.fitting.network import NetworkOfTexts
from training.fitting.recipe import Recipe, Settings
from training.fitting.task import Task, dead, diverged
from training.fitting.trainee import Trainee
from training.fitting.validation import Scorer, by_bm25, by_ranker, sparsity, validate

LISTWISE = ("tfr_bert",)  # rankers that learn from lists alone
BM25, COSINE = "bm25 over premises", "cosine of the encoder"  # untrained


class Pairs(NetworkOfTexts, frozen=True):
    """The unrelated premises of the pairs."""

    curve: ClassVar = Curve(
        "pairwise hinge loss", ("MRR@20", "MAP@20", "nDCG@20"), "MAP@20", "percent, 5 + 100 premises a query", "queries"
    )
    unrelated: Literal["dirichlet"] | None = None  # found by a search for the conclusion; None: of the least similar ones

    def told(self) -> dict[str, Any]:
        """Return nothing for the default: it is what a recipe without a task's table says."""
        return {} if self.unrelated is None else {"unrelated": self.unrelated}

    def check(self, recipe: Settings) -> None:
        """Raise ValueError where the network is no ranker, or one that learns from lists alone."""
        if recipe.ranker is None or recipe.ranker in LISTWISE:
            raise ValueError(f"{recipe.ranker or recipe.enricher} does not learn from pairs; add the table of its task")

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Pairwise:
        """Read the pairs and the validation queries. Raises InputError: they are missing, or not of these tables."""
        return Pairwise.of(recipe, trainee, work, device, self.unrelated)

    def require(self, work: Path) -> None:
        """Raise InputError where a working directory has no tables, or not these unrelated premises."""
        _prepared(work, self.unrelated)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the tables of the corpus in `source` again."""
        return prepare_again(source, work, made, self.unrelated)


class Pairwise(Task[Ranker]):
    """Training arguments with a premise that does not belong to their conclusion, and the thesis' validation."""

    data = ARGS_ME
    measured = "Percent, over queries with 5 related and 100 unrelated premises."

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
        """Read what `prepare pairs` wrote. Raises InputError: it is missing, or not these unrelated premises."""
        decided_by, files = _prepared(work, unrelated)
        pairs = load_pairs(work, trainee.network.reads, trainee.reader, unrelated)
        queries = load_validation(work, trainee.network.reads, trainee.reader)
        task = cls(pairs, queries, recipe, device, trainee.pretrained)
        task.decided_by, task.files = decided_by, files
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
        """Validate over all queries."""
        return self._measured(ranker, step, self._everything)

    def _measured(self, ranker: Ranker, step: int, chosen: np.ndarray) -> dict[str, float]:
        try:
            values, tied = validate(self._queries, chosen, by_ranker(ranker, self._device))
        except FloatingPointError as error:
            raise diverged(step, str(error)) from None
        if tied:
            raise dead(step)
        return values | (sparsity(ranker, self._queries, chosen, self._device) if isinstance(ranker, LatentRanker) else {})


def _prepared(work: Path, unrelated: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the tables' record and hashes. Raises InputError: they are missing, or not these unrelated premises."""
    tables = made(work)
    decided_by, files = tables.decided_by, {name: file.xxh3 for name, file in tables.files.items()}
    if unrelated is None:
        return decided_by, files
    file = unrelated_file(work, unrelated)
    record = read_record(file.parent / RECORD)
    if file.name not in record.files or not decided_by.items() <= record.decided_by.items():
        verb = f"`python -m training prepare pairs -i INPUT --work {work} --unrelated {unrelated}`"
        raise InputError(f"{file}: missing, or not of these tables; {verb} makes it")
    return record.decided_by, files | {file.name: record.files[file.name].xxh3}


def _part(everything: np.ndarray, recipe: Recipe) -> np.ndarray:
    """The queries that pick the checkpoint: a fixed seeded part, or all."""
    number = recipe.training.validation_queries
    return np.sort(generator(recipe.seed, Stream.QUERIES).permutation(everything)[:number]) if number else everything
