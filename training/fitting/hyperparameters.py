"""Hyperparameters shared by all tasks."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

MAX_FLOAT = 1e300  # rejects infinity and NaN
PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0, lt=MAX_FLOAT)]
NonNegativeFloat = Annotated[float, Meta(ge=0, lt=MAX_FLOAT)]


class EncoderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pretrained encoder of a BERT network."""

    name: str = "all-MiniLM-L6-v2"  # package name, path, or folder in checkpoints/encoders
    init_from: str = ""  # checkpoint in the same folder whose encoder is loaded (CEDR: vanilla_bert)
    frozen_layers: Annotated[int, Meta(ge=-1)] = -1  # lowest blocks to freeze, with the embeddings; -1: none
    learning_rate: PositiveFloat = 2e-5
    bfloat16: bool = False  # autocast during training; slow without hardware support (avx512_bf16, AMX, a GPU)


class TrainingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Optimisation settings (Entezari 2020, table 4.1)."""

    epochs: NonNegativeInt = 10  # 0: the network is not trained
    max_steps: NonNegativeInt = 0  # upper bound on optimiser steps; 0: none
    validations_per_epoch: PositiveInt = 8
    learning_rate: PositiveFloat = 1e-3
    warmup_fraction: Annotated[float, Meta(ge=0, le=1)] = 0.0  # fraction of the steps with linear warm-up
    linear_decay: bool = False  # linear decay of the learning rates to 0
    margin: NonNegativeFloat = 1.0
    l1_weight: NonNegativeFloat = 0.0  # weight of the L1 norm of latent vectors (SNRM)
    batch_size: PositiveInt = 32  # examples per optimiser step
    micro_batch_size: PositiveInt = 32  # examples per forward pass
    validation_queries: NonNegativeInt = (
        0  # size of the query sample that selects the checkpoint; 0: all. Final metrics use all.
    )

    def __post_init__(self) -> None:
        """Raise ValueError unless the batch size is a multiple of the micro-batch size."""
        if self.batch_size % self.micro_batch_size:
            raise ValueError(
                f"training.batch_size ({self.batch_size}) must be a multiple of training.micro_batch_size "
                f"({self.micro_batch_size})"
            )
