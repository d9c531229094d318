"""Validating a student of Augmented SBERT, whose weights the students' own training gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from submission.rankers.network import Network
from training.data.prepare import prepare_again
from training.data.work import made as tables_of
from training.fitting.network import NetworkOfTexts
from training.fitting.recipe import Recipe
from training.fitting.settings import Count
from training.fitting.trainee import Trainee
from training.tasks.pairs import Pairs, Pairwise


class Student(NetworkOfTexts, frozen=True):
    """The pairs and the loss of a student of Augmented SBERT; the encoder's rate and frozen blocks are the student's."""

    curve: ClassVar = Pairs.curve
    teaches: ClassVar = True
    networks: ClassVar = ("sbert",)
    loss: Literal["cosine", "cosent", "multiple_negatives"]
    pairs: Literal["gold", "silver", "gold and silver"]
    arguments: Count = 2500  # each gives gold two pairs: with its own conclusion, and a premise of another
    k: Count = 3  # premises that BM25 finds for a conclusion among those of others
    silver: Count = 5000  # pairs of these that the teacher labels, at most
    teacher: str = ""  # the encoder where the teacher starts, a name or a folder; "": where the student does
    taught: bool = True  # the teacher is trained on gold; false: it is a cross-encoder that labels as it comes

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Pairwise:
        """Read the pairs' validation. Raises InputError: it is missing."""
        return Pairwise.of(recipe, trainee, work, device)

    def teach(self, recipe: Recipe, network: Network, work: Path, device: torch.device) -> None:
        """Give a ranker the weights of the student, which is trained unless it is kept. Raises as `study students` does."""
        from training.augmented import students  # only here: its libraries take seconds

        students.teach(network, recipe, self, students.Network(self.loss, self.pairs), work, device)

    def require(self, work: Path) -> None:
        """Raise InputError where a working directory has no tables."""
        tables_of(work)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the tables of the corpus in `source` again."""
        return prepare_again(source, work, made)
