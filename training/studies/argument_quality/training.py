"""A network trained on given topics and chosen on others, in memory: what an evaluation with folds needs many of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from submission.paths import CHECKPOINTS
from submission.rankers.base import Ranker
from submission.rankers.bert import BERTNetwork, BlockForCls
from submission.scoring.pairs import score_pairs
from submission.text.tokenisers import Tokeniser
from training.fitting.frozen_layers import FrozenLayers
from training.fitting.loop import train as validations
from training.fitting.network import build
from training.fitting.recipe import Recipe
from training.fitting.schedule import Schedule
from training.fitting.settings import PretrainedEncoder
from training.fitting.state import State
from training.fitting.trainee import Trainee
from training.fitting.validation import evaluating
from training.quality.listwise import read
from training.tasks.lists import Lists, QualityLists

_SHARED: dict[tuple[PretrainedEncoder, str], FrozenLayers] = {}  # of encoders on a device; a process trains many networks


def trained(recipe: Recipe, train: pd.DataFrame, dev: pd.DataFrame, device: torch.device) -> Trainee[Ranker, Tokeniser]:
    """The network of the validation that is best by Spearman, unrounded.

    Args:
        recipe: with lists; its seed, settings and loss decide, the names of its data do not.
        train: the topics to learn from, see `quality_table`.
        dev: the topics to choose on.
        device: where to compute, and where the network is left.

    Raises:
        InputError: a topic of dev has no order. TrainingError: a non-finite loss, or a dead network.
        CheckpointError: no encoder, no start.
    """
    trainee = build(recipe, Path(), CHECKPOINTS)  # without word vectors
    ranker = trainee.network.to(device)
    _lighten(trainee, recipe, device)
    assert isinstance(recipe.task, Lists)
    task = QualityLists(train, dev, recipe.task, trainee.reader, device)
    schedule, state, optimiser = Schedule(recipe, task.size), State(""), trainee.optimiser(recipe.training, recipe.encoder)
    best = {}
    for row in validations(ranker, optimiser, task, schedule, state, range(schedule.steps)):
        if recipe.task.curve.kept(state.rows) is row:
            best = {name: value.detach().clone() for name, value in ranker.named_parameters() if value.requires_grad}
    ranker.load_state_dict({**ranker.state_dict(), **best})
    return trainee


def scores(trainee: Trainee[Ranker, Tokeniser], table: pd.DataFrame, device: torch.device) -> np.ndarray:
    """The scores (rows,) float32 of a table's arguments for their topics, in its order."""
    with evaluating(trainee.network):
        return score_pairs(trainee.network.to(device), read(table, trainee.reader), device)


def _lighten(trainee: Trainee[Ranker, Tokeniser], recipe: Recipe, device: torch.device) -> None:
    """Spare a BERT network in training what changes nothing but which numbers are drawn for dropout.

    What its frozen blocks make of a pair is the same in all folds, losses and seeds, and computed once; of its last block
    nothing but [CLS] is read.
    """
    frozen, network = recipe.encoder.frozen, trainee.network
    if isinstance(network, BERTNetwork) and trainee.pretrained:
        bert = network.encoder.bert
        last = bert.encoder.layer[-1]
        if isinstance(last, BlockForCls):
            last.whole_in_training = False
        if frozen > 0:
            _SHARED.setdefault((recipe.encoder, device.type), FrozenLayers(bert, frozen)).give(bert)
