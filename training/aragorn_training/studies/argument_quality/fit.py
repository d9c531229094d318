"""Train a network and keep its best weights in memory, without a checkpoint, for evaluations with
many folds."""

from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.inference.pair_scoring import score_pairs
from aragorn.models.bert import BERTNetwork
from aragorn.models.transformer import ClsOnlyLayer
from aragorn.paths import CHECKPOINT_DIR
from aragorn_training.fitting.frozen_layer_cache import FrozenLayerCache
from aragorn_training.fitting.initialisation import build_network
from aragorn_training.fitting.listwise import encode_pairs
from aragorn_training.fitting.recipe import EncoderSettings, Recipe
from aragorn_training.fitting.task import TrainableNetwork
from aragorn_training.fitting.training_loop import Schedule, TrainingState
from aragorn_training.fitting.training_loop import train as train_loop
from aragorn_training.fitting.validation import use_evaluation_mode
from aragorn_training.tasks.quality import QualitySpec, QualityTask

# frozen layers by encoder and device, shared by all networks of a process
_FROZEN_LAYERS: dict[tuple[EncoderSettings, str], FrozenLayerCache] = {}


def train_network(
    recipe: Recipe, train: pd.DataFrame, dev: pd.DataFrame, device: str
) -> TrainableNetwork:
    """Train a network and return it with the weights of the highest Spearman correlation on the dev
    topics.

    Args:
        recipe: Listwise recipe; its data sets are ignored.
        train: Training topics, see `aragorn_training.data.quality.load_table`.
        dev: Dev topics.
        device: Device of the network.
    """
    trainee = build_network(recipe, Path(), CHECKPOINT_DIR)  # without word vectors
    ranker = trainee.network.to(device)
    _share_frozen_layers(trainee, recipe, device)
    assert isinstance(recipe.task, QualitySpec)
    task = QualityTask(train, dev, recipe.task, trainee.tokeniser, device)
    optimiser = trainee.build_optimiser(recipe.training.learning_rate, recipe.encoder.learning_rate)
    schedule = Schedule(recipe, task.train_size)
    state = TrainingState("")
    best_weights = {}
    for row in train_loop(ranker, optimiser, task, schedule, state, range(schedule.total_steps)):
        if recipe.task.curve.select(state.log_rows) is row:
            best_weights = {
                name: value.detach().clone()
                for name, value in ranker.named_parameters()
                if value.requires_grad
            }
    ranker.load_state_dict({**ranker.state_dict(), **best_weights})
    return trainee


def score_arguments(trainee: TrainableNetwork, table: pd.DataFrame, device: str) -> np.ndarray:
    """Return the scores (rows,) float32 of a table's arguments for their topics."""
    with use_evaluation_mode(trainee.network):
        return score_pairs(
            trainee.network.to(device), encode_pairs(table, trainee.tokeniser), device
        )


def _share_frozen_layers(trainee: TrainableNetwork, recipe: Recipe, device: str) -> None:
    """Share activations of frozen BERT blocks among folds, losses and seeds, and compute only [CLS]
    in the last block.

    Results change only by the random draws of dropout.
    """
    frozen_layers = recipe.encoder.frozen_layers
    network = trainee.network
    if isinstance(network, BERTNetwork) and trainee.pretrained:
        bert = network.encoder.bert
        last_block = bert.layers[-1]
        if isinstance(last_block, ClsOnlyLayer):
            last_block.full_in_training = False
        if frozen_layers > 0:
            _FROZEN_LAYERS.setdefault(
                (recipe.encoder, device), FrozenLayerCache(bert, frozen_layers)
            ).attach_to(bert)
