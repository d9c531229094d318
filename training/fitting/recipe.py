"""A recipe: a network, its sizes, its text lengths, its optimisation, and the task that it is trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import torch
from msgspec import Meta

from submission import enrichment, rankers
from submission.rankers.network import Network
from submission.text.tokenisers import Lengths
from training.fitting.clusters import Clusters
from training.fitting.curves import Curve
from training.fitting.settings import Amount, Optimisation, PretrainedEncoder
from training.fitting.task import Task
from training.fitting.trainee import Trainee

OF_PAIRS = ("margin", "sparsity", "validation_queries")  # settings of Optimisation that only pairs have


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of a recipe that does not depend on the task."""

    ranker: str | None = None  # either this or the next
    enricher: str | None = None
    seed: Annotated[int, Meta(ge=0)] = 0
    terms: Amount = 0  # the vocabulary: so many most frequent words of what `prepare vectors` wrote; 0: all
    network: dict[str, Any] = {}  # fields of the network's Config
    lengths: Lengths = Lengths()
    encoder: PretrainedEncoder = PretrainedEncoder()  # BERT networks only
    clusters: Clusters | None = None  # how a sparse network begins; none: at random, with word vectors of length 1
    training: Optimisation = Optimisation()
    remark: str | None = None  # for the checkpoint's card

    def __post_init__(self) -> None:
        """Raise ValueError where not exactly one network is named."""
        if (self.ranker is None) == (self.enricher is None):
            raise ValueError("expected `ranker` or `enricher`, the name of a network")


class TaskSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task: the examples that a network learns from and its validation, as a recipe's table says.

    A subclass is the table, in a file of its own in training/tasks that has the table's name.
    """

    curve: ClassVar[Curve]
    teaches: ClassVar[bool] = False  # the weights come from `teach`: there is nothing to train, only to validate
    networks: ClassVar[tuple[str, ...]] = ()  # those that the task can train; none: any ranker

    @property
    def written(self) -> Literal["word2vec", "fasttext"] | None:
        """The method that made the network's word vectors, where they are of words as written; None: of normalised words."""
        return None

    @classmethod
    def table(cls) -> str:
        """Return the name of the recipe's table."""
        return cls.__module__.rpartition(".")[2]

    def told(self) -> dict[str, Any]:
        """Return the part of a checkpoint's provenance that says the task."""
        return {self.table(): msgspec.to_builtins(self)}

    def check(self, recipe: Settings) -> None:
        """Raise ValueError where the task cannot train the recipe's network."""
        name, table = recipe.ranker or recipe.enricher, f"[{self.table()}]"
        if self.networks and name not in self.networks:
            raise ValueError(f"{table} trains {' or '.join(self.networks)}, not {name}; change the network or the table")
        if not self.networks and recipe.ranker is None:
            raise ValueError(f"{table} trains rankers, and {name} is an enricher; change the network or the table")
        for key in OF_PAIRS:
            if getattr(recipe.training, key) != getattr(Optimisation(), key):
                raise ValueError(f"training.{key} is of pairs, {table} has no such setting; remove it")

    def network_class(self, recipe: Settings) -> type[Network]:
        """Return the class of the network. Raises UsageError: there is none of that name."""
        return rankers.find(recipe.ranker) if recipe.ranker is not None else enrichment.find(recipe.enricher or "")

    def starts_from(self, recipe: Settings) -> str:
        """Return the name of the checkpoint that the network starts from, or an empty string."""
        return recipe.encoder.start

    def build(self, recipe: Recipe, vectors: Path, checkpoints: Path) -> Trainee[Any, Any]:
        """Build the network as training begins; see `network.build`."""
        raise NotImplementedError

    def task(self, recipe: Recipe, trainee: Trainee[Any, Any], work: Path, device: torch.device) -> Task[Any]:
        """Read the examples from a working directory. Raises InputError: they are missing or damaged."""
        raise NotImplementedError

    def teach(self, recipe: Recipe, network: Network, work: Path, device: torch.device) -> None:
        """Give a network the weights that were trained elsewhere, where `teaches`; others stay as they are built."""

    def require(self, work: Path) -> None:
        """Raise InputError, which names the verb, where a working directory has no such examples."""
        raise NotImplementedError

    def prepare(self, source: Path, work: Path, made: dict[str, Any]) -> dict[str, str]:
        """Prepare the examples of a stored checkpoint again, for `reproduce`.

        Args:
            source: the data: the corpus, or published lists.
            work: the working directory.
            made: "trained on" in the stored checkpoint's provenance.

        Returns:
            The SHA-256 of each file of the data by its name.

        Raises:
            UsageError: they cannot be prepared from one directory. InputError: the data are missing or malformed.
        """
        raise NotImplementedError


class Recipe(Settings, frozen=True, kw_only=True):
    """The settings of a network and its training."""

    task: TaskSpec

    @property
    def network_class(self) -> type[Network]:
        """The class of the network. Raises UsageError: there is none of that name."""
        return self.task.network_class(self)

    @property
    def start(self) -> str:
        """The name of the checkpoint that the network starts from, or an empty string."""
        return self.task.starts_from(self)

    def told(self) -> dict[str, Any]:
        """Return the recipe for a checkpoint's provenance, without unset fields, the task's table last but for the remark."""
        values = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        remark = {"remark": values.pop("remark")} if "remark" in values else {}
        del values["task"]
        return {**values, **self.task.told(), **remark}
