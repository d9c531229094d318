"""Recipes: network, sizes, text lengths, optimisation and training task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import torch
from msgspec import Meta

from submission.models import enrichers, rankers
from submission.models.network import Network
from submission.text.tokenisers import Lengths
from training.data.pairs import prepare_again
from training.data.work_directory import made
from training.fitting.cluster_initialisation import Clusters
from training.fitting.hyperparameters import Amount, Optimisation, PretrainedEncoder
from training.fitting.learning_curve import Curve
from training.fitting.task import Task
from training.fitting.trainable import Trainee

OF_PAIRS = ("margin", "sparsity", "validation_queries")  # training settings of [pairs] only


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of a recipe that no task changes."""

    ranker: str | None = None  # exactly one of ranker and enricher
    enricher: str | None = None
    seed: Annotated[int, Meta(ge=0)] = 0
    terms: Amount = 0  # vocabulary size: most frequent words; 0: all
    network: dict[str, Any] = {}  # fields of the network's Config
    lengths: Lengths = Lengths()
    encoder: PretrainedEncoder = PretrainedEncoder()  # BERT networks only
    clusters: Clusters | None = None  # initialisation of a sparse network; None: random filters, unit word vectors
    training: Optimisation = Optimisation()
    remark: str | None = None  # printed on the checkpoint's card

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one network is named."""
        if (self.ranker is None) == (self.enricher is None):
            raise ValueError("set exactly one of `ranker` and `enricher` to a network's name")


class TaskSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A training task: examples and validation, configured by a recipe's table.

    Each subclass is a file in training/tasks named like its table.
    """

    curve: ClassVar[Curve]
    teaches: ClassVar[bool] = False  # weights come from `teach`; nothing is trained
    networks: ClassVar[tuple[str, ...]] = ()  # trainable networks; empty: all rankers

    @property
    def written(self) -> Literal["word2vec", "fasttext"] | None:
        """Return the vector method for surface tokens; None: normalised words."""
        return None

    @classmethod
    def table(cls) -> str:
        """Return the name of the recipe table."""
        return cls.__module__.rpartition(".")[2]

    def told(self) -> dict[str, Any]:
        """Return the task's part of the provenance."""
        return {self.table(): msgspec.to_builtins(self)}

    def check(self, recipe: Settings) -> None:
        """Raise ValueError if the task cannot train the recipe's network."""
        name, table = recipe.ranker or recipe.enricher, f"[{self.table()}]"
        if self.networks and name not in self.networks:
            raise ValueError(f"{table} supports {' or '.join(self.networks)}, not {name}; change the network or the task table")
        if not self.networks and recipe.ranker is None:
            raise ValueError(f"{table} supports rankers, but {name} is an enricher; change the network or the task table")
        for key in OF_PAIRS:
            if getattr(recipe.training, key) != getattr(Optimisation(), key):
                raise ValueError(f"training.{key} applies to [pairs] only; remove it")

    def network_class(self, recipe: Settings) -> type[Network]:
        """Return the network's class. Raises UsageError: unknown network."""
        return rankers.find(recipe.ranker) if recipe.ranker is not None else enrichers.find(recipe.enricher or "")

    def starts_from(self, recipe: Settings) -> str:
        """Return the name of the checkpoint to initialise from, or an empty string."""
        return recipe.encoder.start

    def build(self, recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
        """Build and initialise the network; see `network.build`."""
        raise NotImplementedError

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Task[Any]:
        """Load the examples from a working directory.

        Raises:
            InputError: the examples are missing or damaged.
        """
        raise NotImplementedError

    def teach(self, recipe: Recipe, network: Network, work: Path, device: torch.device) -> None:
        """Load externally trained weights if `teaches`."""

    def require(self, work: Path) -> None:
        """Raise InputError, naming the command, if the examples are missing; by default the tables of the corpus."""
        made(work)

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the examples of a stored checkpoint again, for `reproduce`; by default the tables of the corpus.

        Args:
            source: corpus or published data sets.
            work: working directory.
            made: "trained on" in the stored checkpoint's provenance.

        Returns:
            SHA-256 by data file name.

        Raises:
            UsageError: the data cannot be rebuilt from one directory.
            InputError: the data are missing or malformed.
        """
        return prepare_again(source, work, made)


class Recipe(Settings, frozen=True, kw_only=True):
    """A network and its training settings."""

    task: TaskSpec

    @property
    def network_class(self) -> type[Network]:
        """Return the network's class. Raises UsageError: unknown network."""
        return self.task.network_class(self)

    @property
    def start(self) -> str:
        """Return the name of the checkpoint to initialise from, or an empty string."""
        return self.task.starts_from(self)

    def told(self) -> dict[str, Any]:
        """Return the recipe for the provenance, without unset fields."""
        values = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        remark = {"remark": values.pop("remark")} if "remark" in values else {}
        del values["task"]
        return {**values, **self.task.told(), **remark}
