"""Validate an Augmented SBERT student; the study trains it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from submission.models.network import Network
from training.fitting.hyperparameters import Count
from training.fitting.initialisation import NetworkOfTexts
from training.fitting.recipe import Recipe
from training.fitting.trainable import Trainee
from training.tasks.pairs import Pairs, Pairwise


class Student(NetworkOfTexts, frozen=True):
    """Data and loss of the student. [encoder] sets its learning rate and frozen layers."""

    curve: ClassVar = Pairs.curve
    teaches: ClassVar = True
    networks: ClassVar = ("sbert",)
    loss: Literal["cosine", "cosent", "multiple_negatives"]
    pairs: Literal["gold", "silver", "gold and silver"]
    arguments: Count = 2500  # each yields two gold pairs: its own conclusion and a negative premise
    k: Count = 3  # premises of other conclusions retrieved per conclusion by BM25
    silver: Count = 5000  # silver pairs labelled by the teacher, at most
    teacher: str = ""  # encoder name or folder; "": the student's
    taught: bool = True  # fine-tune the teacher on gold; false: use it as is

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Pairwise:
        """Load the validation queries. Raises InputError: the tables are missing."""
        return Pairwise.of(recipe, trainee, work, device)

    def teach(self, recipe: Recipe, network: Network, work: Path, device: torch.device) -> None:
        """Load the student's weights into a ranker, training it first if they are not cached.

        Raises:
            The errors of `study students`.
        """
        from training.sbert import students  # imports take seconds

        students.teach(network, recipe, self, students.Network(self.loss, self.pairs), work, device)
