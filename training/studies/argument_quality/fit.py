"""Train and select a network in memory, for evaluations with many folds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from submission.inference.pair_scoring import score_pairs
from submission.models.bert import BERTNetwork, BlockForCls
from submission.models.ranker import Ranker
from submission.paths import CHECKPOINTS
from submission.text.tokenisers import Tokeniser
from training.fitting.frozen_layer_cache import FrozenLayers
from training.fitting.hyperparameters import PretrainedEncoder
from training.fitting.initialisation import build
from training.fitting.listwise import read
from training.fitting.recipe import Recipe
from training.fitting.schedule import Schedule
from training.fitting.trainable import Trainee
from training.fitting.training_loop import train as train_loop
from training.fitting.training_state import State
from training.fitting.validation import evaluating
from training.tasks.quality import Lists, QualityLists

_SHARED: dict[tuple[PretrainedEncoder, str], FrozenLayers] = {}  # by encoder and device, shared by all networks of a process


def trained(recipe: Recipe, train: pd.DataFrame, dev: pd.DataFrame, device: torch.device) -> Trainee[Ranker, Tokeniser]:
    """Train a network and return the one with the best validation Spearman (unrounded).

    Args:
        recipe: Listwise recipe; its data names are ignored.
        train: Training topics, see `quality_table`.
        dev: Dev topics.
        device: Device of the network.

    Raises:
        InputError: If a dev topic has no two different grades.
        TrainingError: If the loss is not finite or the network is dead.
        CheckpointError: If the encoder or initial checkpoint is missing.
    """
    trainee = build(recipe, Path(), CHECKPOINTS)  # without word vectors
    ranker = trainee.network.to(device)
    _lighten(trainee, recipe, device)
    assert isinstance(recipe.task, Lists)
    task = QualityLists(train, dev, recipe.task, trainee.reader, device)
    schedule, state, optimiser = Schedule(recipe, task.size), State(""), trainee.optimiser(recipe.training, recipe.encoder)
    best = {}
    for row in train_loop(ranker, optimiser, task, schedule, state, range(schedule.steps)):
        if recipe.task.curve.kept(state.rows) is row:
            best = {name: value.detach().clone() for name, value in ranker.named_parameters() if value.requires_grad}
    ranker.load_state_dict({**ranker.state_dict(), **best})
    return trainee


def scores(trainee: Trainee[Ranker, Tokeniser], table: pd.DataFrame, device: torch.device) -> np.ndarray:
    """Score a table's arguments for their topics (rows,) float32."""
    with evaluating(trainee.network):
        return score_pairs(trainee.network.to(device), read(table, trainee.reader), device)


def _lighten(trainee: Trainee[Ranker, Tokeniser], recipe: Recipe, device: torch.device) -> None:
    """Speed up BERT training without changing results except for dropout draws.

    Activations of frozen blocks are computed once per pair and shared by all folds, losses and seeds; the last block is
    computed for [CLS] only.
    """
    frozen, network = recipe.encoder.frozen, trainee.network
    if isinstance(network, BERTNetwork) and trainee.pretrained:
        bert = network.encoder.bert
        last = bert.encoder.layer[-1]
        if isinstance(last, BlockForCls):
            last.whole_in_training = False
        if frozen > 0:
            _SHARED.setdefault((recipe.encoder, device.type), FrozenLayers(bert, frozen)).give(bert)
