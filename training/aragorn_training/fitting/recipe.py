"""Define recipes: a network with sizes, text lengths, optimisation settings and training task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from aragorn.bounds import (
    FrozenCount,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Share,
)
from aragorn.models import rankers, taggers
from aragorn.models.network import Network
from aragorn.text.tokenisers import MaxLengths
from aragorn_training.data.distant_supervision import CandidateSettings
from aragorn_training.data.word_vectors import VectorMethod
from aragorn_training.data.work_directory import read_prepared_manifest
from aragorn_training.fitting.task import CurveSpec, Task, TrainableNetwork


class EncoderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the pretrained encoder of a BERT network."""

    name: str = "all-MiniLM-L6-v2"  # package name, path, or folder in checkpoints/encoders
    # checkpoint in the output's parent folder that provides the encoder's weights; empty: none
    init_from: str = ""
    # number of lowest blocks frozen with the embeddings; -1: nothing is
    frozen_layers: FrozenCount = -1
    learning_rate: Positive = 2e-5
    # autocast during training; slow without hardware support (avx512_bf16, AMX, a GPU)
    bfloat16: bool = False


class TrainingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of optimisation and validation (Entezari 2020, table 4.1)."""

    epochs: NonNegativeInt = 10  # 0: the network is not trained
    max_steps: NonNegativeInt = 0  # upper bound on optimiser steps; 0: none
    validations_per_epoch: PositiveInt = 8
    learning_rate: Positive = 1e-3
    # fraction of the steps used for linear warm-up
    warmup_fraction: Share = 0.0
    linear_decay: bool = False  # linear decay of the learning rates to 0
    margin: NonNegative = 1.0  # margin of the pairwise hinge loss
    l1_weight: NonNegative = 0.0  # weight of the L1 norm of latent vectors (SNRM)
    batch_size: PositiveInt = 32  # examples per optimiser step
    micro_batch_size: PositiveInt = 32  # examples per forward pass
    # size of the query sample that selects the checkpoint; 0: all
    validation_queries: NonNegativeInt = 0

    def __post_init__(self) -> None:
        """Raise ValueError unless the batch size is a multiple of the micro-batch size."""
        if self.batch_size % self.micro_batch_size:
            raise ValueError(
                f"training.batch_size ({self.batch_size}) must be a multiple of "
                f"training.micro_batch_size ({self.micro_batch_size})"
            )


class ClusterInitialisation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings for SNRM's filters as centroids of vectors, see `initialise_from_clusters`."""

    threshold: Annotated[float, Meta(ge=0, lt=1)] = 0.5  # minimum cosine with a centroid
    # exponent of a word's rarity; 0: all words have equal weight
    rarity_exponent: Annotated[float, Meta(ge=0, le=10)] = 1.0


class BaseRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a recipe that do not depend on its training task."""

    ranker: str | None = None  # exactly one of ranker and tagger is set
    tagger: str | None = None
    seed: NonNegativeInt = 0
    max_terms: NonNegativeInt = 0  # vocabulary size: most frequent words; 0: all
    network: dict[str, Any] = {}  # fields of the network's Config
    lengths: MaxLengths = MaxLengths()
    encoder: EncoderSettings = EncoderSettings()  # BERT networks only
    # initialisation of a sparse network; None: random filters, unit word vectors
    clusters: ClusterInitialisation | None = None
    training: TrainingSettings = TrainingSettings()
    validation: CandidateSettings = CandidateSettings()  # tasks that validate on candidates only
    note: str | None = None  # printed on the checkpoint's card

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one of `ranker` and `tagger` is set."""
        if (self.ranker is None) == (self.tagger is None):
            raise ValueError("set exactly one of `ranker` and `tagger` to a network's name")


class TaskSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a training task: a table of recipes, and a module of aragorn_training.tasks."""

    version: ClassVar[int] = 1
    computes_with: ClassVar[tuple[str, ...]] = ("aragorn_training.fitting.validation",)

    curve: ClassVar[CurveSpec]
    data_kind: ClassVar[str] = "pairs"  # KIND of `prepare KIND`, which writes the examples
    # `load_or_train_weights` replaces the training loop of `fit`
    is_trained_externally: ClassVar[bool] = False
    supported_networks: ClassVar[tuple[str, ...]] = ()  # empty: all rankers
    # [training] keys to leave unset
    pairwise_only: ClassVar[tuple[str, ...]] = ("margin", "l1_weight", "validation_queries")
    validates_on_candidates: ClassVar[bool] = False  # whether the table [validation] applies

    @property
    def surface_vector_method(self) -> VectorMethod | None:
        """Method of the surface-token vectors; None if the network reads normalised words."""
        return None

    @property
    def published_files(self) -> tuple[str, ...]:
        """Names of the published files and folders that the examples are prepared from."""
        return ()

    @property
    def needs_qrels(self) -> bool:
        """Whether judged documents are excluded from the examples."""
        return False

    @classmethod
    def get_table_name(cls) -> str:
        """Return the name of the task's table in a recipe."""
        return cls.__module__.rpartition(".")[2]

    def to_provenance(self) -> dict[str, Any]:
        """Return the task's settings for the provenance, by table name."""
        return {self.get_table_name(): msgspec.to_builtins(self)}

    def validate_recipe(self, recipe: BaseRecipe) -> None:
        """Raise ValueError if the task does not support the network or a [training] setting."""
        name = recipe.ranker or recipe.tagger
        table = f"[{self.get_table_name()}]"
        if self.supported_networks and name not in self.supported_networks:
            networks = " or ".join(self.supported_networks)
            raise ValueError(
                f"{table} supports {networks}, not {name}; change the network or the task table"
            )
        if not self.supported_networks and recipe.ranker is None:
            cause = f"{table} supports rankers, but {name} is a tagger"
            raise ValueError(f"{cause}; change the network or the task table")
        for key in self.pairwise_only:
            if getattr(recipe.training, key) != getattr(TrainingSettings(), key):
                raise ValueError(f"training.{key} applies to [pairs] only; remove it")
        if not self.validates_on_candidates and recipe.validation != CandidateSettings():
            cause = f"[validation] does not apply to {table}, which has other validation data"
            raise ValueError(f"{cause}; remove it")

    def resolve_network_class(self, recipe: BaseRecipe) -> type[Network]:
        """Return the class of the recipe's network; raise UsageError if the network is unknown."""
        if recipe.ranker is not None:
            return rankers.get_ranker_class(recipe.ranker)
        return taggers.get_tagger_class(recipe.tagger or "")

    def get_initial_checkpoint(self, recipe: BaseRecipe) -> str:
        """Return the name of the checkpoint to initialise from; "": none."""
        return recipe.encoder.init_from

    def build_network(
        self, recipe: Recipe, vectors_dir: Path, checkpoints_dir: Path
    ) -> TrainableNetwork:
        """Build and initialise the network; see `initialisation.build_network`."""
        raise NotImplementedError

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> Task[Any]:
        """Load the examples; raise InputError if they are missing, damaged or too few."""
        raise NotImplementedError

    def load_or_train_weights(
        self, recipe: Recipe, network: Network, work_dir: Path, device: str
    ) -> None:
        """Load weights cached in `work_dir`, or train them, if `is_trained_externally`."""

    def check_prepared(self, work_dir: Path) -> None:
        """Raise InputError with the command to run if the examples are missing."""
        read_prepared_manifest(work_dir)


class Recipe(BaseRecipe, frozen=True, kw_only=True):
    """Recipe for building a network and training it on a task."""

    task: TaskSpec

    @property
    def network_class(self) -> type[Network]:
        """Network class; raises UsageError if the network is unknown."""
        return self.task.resolve_network_class(self)

    @property
    def initial_checkpoint(self) -> str:
        """Name of the checkpoint to initialise the network from; "": none."""
        return self.task.get_initial_checkpoint(self)

    def to_provenance(self) -> dict[str, Any]:
        """Return the recipe for the provenance, without unset fields and with the note last."""
        values = {
            name: value for name, value in msgspec.to_builtins(self).items() if value is not None
        }
        note = {"note": values.pop("note")} if "note" in values else {}
        del values["task"]
        if not self.task.validates_on_candidates:
            del values["validation"]
        return {**values, **self.task.to_provenance(), **note}
