"""The settings of a training run that all tasks share: the optimisation, and the encoder that a BERT network starts from."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

LARGE = 1e300  # no number is; infinity and NaN are refused
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[int, Meta(ge=0)]
Rate = Annotated[float, Meta(gt=0, lt=LARGE)]
Weight = Annotated[float, Meta(ge=0, lt=LARGE)]


class PretrainedEncoder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The encoder that a BERT network starts from."""

    name: str = "all-MiniLM-L6-v2"  # or a folder, by its path or by its name in checkpoints/encoders
    start: str = ""  # a checkpoint beside the one to be written, whose trained encoder is the start (CEDR: vanilla_bert)
    frozen: Annotated[int, Meta(ge=-1)] = -1  # the number of lowest blocks that are frozen, with the embeddings; -1: none
    learning_rate: Rate = 2e-5
    bfloat16: bool = False  # the encoder under autocast, in training only


class Optimisation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The optimisation of a network (thesis, table 4.1)."""

    epochs: Amount = 10  # 0: none, of a network that comes trained
    steps: Amount = 0  # fewer steps of the optimiser than the epochs have; 0: all
    validations: Count = 8  # an epoch
    learning_rate: Rate = 1e-3
    warm_up: Annotated[float, Meta(ge=0, le=1)] = 0.0  # the share of the steps over which all learning rates rise from 0
    decay: bool = False  # all learning rates fall linearly to 0 over the run
    margin: Weight = 1.0
    sparsity: Weight = 0.0  # the weight of the L1 norm of latent vectors (SNRM); 0: no such term
    global_batch_size: Count = 32  # pairs between two steps of the optimiser
    micro_batch_size: Count = 32  # pairs computed at a time
    validation_queries: Amount = 0  # a seeded part of them picks the checkpoint; 0: all. Final metrics are always of all.

    def __post_init__(self) -> None:
        """Raise ValueError where a batch is no multiple of its parts."""
        if self.global_batch_size % self.micro_batch_size:
            raise ValueError(
                f"training.global_batch_size ({self.global_batch_size}) must be a multiple of training.micro_batch_size "
                f"({self.micro_batch_size})"
            )
