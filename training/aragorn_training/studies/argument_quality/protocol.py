"""Define the training and test data of all settings: held-out debates, held-out topics,
cross-data-set transfer.

Favreau et al. (2022) hold out topics but train on the opposite side of the same debate. This study
holds out whole debates; the setting ukp_32_folds replicates the published split. The 16- and
32-fold settings use one seed. "ukp" and "ibm" compare all losses (Favreau et al. 2022, table 5);
the others use the recipe's loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from msgspec.structs import replace

from aragorn.errors import InputError, TrainingError
from aragorn.inference.pair_scoring import score_pairs
from aragorn.models.bert import BERTNetwork
from aragorn.models.transformer import ClsOnlyLayer
from aragorn.paths import CHECKPOINT_DIR
from aragorn_training.data.quality import COLUMNS
from aragorn_training.evaluation.folds import Fold, split_folds
from aragorn_training.fitting.frozen_layer_cache import FrozenLayerCache
from aragorn_training.fitting.initialisation import build_network
from aragorn_training.fitting.listwise import LOSSES, encode_pairs
from aragorn_training.fitting.recipe import EncoderSettings, Recipe
from aragorn_training.fitting.task import TrainableNetwork
from aragorn_training.fitting.training_loop import Schedule, TrainingState
from aragorn_training.fitting.training_loop import train as train_loop
from aragorn_training.fitting.validation import use_evaluation_mode
from aragorn_training.tasks.quality import QualitySpec, QualityTask

N_DEV = {"ukp": 3, "ibm": 2}  # number of dev debates (or topics) for early stopping, by data set
SPLIT_SEED = 0  # one split for all network seeds
# frozen layers by encoder and device, shared by all networks of a process
_FROZEN_LAYERS: dict[tuple[EncoderSettings, str], FrozenLayerCache] = {}


def train_network(
    recipe: Recipe, train: pd.DataFrame, dev: pd.DataFrame, device: str
) -> TrainableNetwork:
    """Train a network on topics, see `data.quality.load_table`; return it with the weights of the
    highest Spearman correlation on the dev topics."""
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
            trainable = (item for item in ranker.named_parameters() if item[1].requires_grad)
            best_weights = {name: value.detach().clone() for name, value in trainable}
    ranker.load_state_dict({**ranker.state_dict(), **best_weights})
    return trainee


def score_arguments(trainee: TrainableNetwork, table: pd.DataFrame, device: str) -> np.ndarray:
    """Return the scores (rows,) float32 of a table's arguments for their topics."""
    pairs = encode_pairs(table, trainee.tokeniser)
    with use_evaluation_mode(trainee.network):
        return score_pairs(trainee.network.to(device), pairs, device)


def _share_frozen_layers(trainee: TrainableNetwork, recipe: Recipe, device: str) -> None:
    """Share outputs of frozen blocks, and compute only [CLS] in the last block; only the draws of
    dropout change."""
    frozen_layers = recipe.encoder.frozen_layers
    network = trainee.network
    if isinstance(network, BERTNetwork) and trainee.pretrained:
        bert = network.encoder.bert
        last_block = bert.layers[-1]
        if isinstance(last_block, ClsOnlyLayer):
            last_block.full_in_training = False
        if frozen_layers > 0:
            cache = FrozenLayerCache(bert, frozen_layers)
            _FROZEN_LAYERS.setdefault((recipe.encoder, device), cache).attach_to(bert)


@dataclass(frozen=True)
class Setting:
    """Experimental setting: the data to train and test on, and which networks are trained."""

    train_data: tuple[str, ...]
    # data sets tested on instead of the test folds; if empty, the test folds
    test_data: tuple[str, ...] = ()
    n_folds: int = 1  # 1: no test fold; train on all debates but the dev debates
    group_by: str = "debate"  # held-out unit: debate or topic
    # train one network per loss; otherwise, one with the recipe's loss
    has_all_losses: bool = False
    has_single_seed: bool = False  # use the first seed only
    has_topic_ablation: bool = False  # also train a network without the topic

    @property
    def data_sets(self) -> tuple[str, ...]:
        """Names of the setting's data sets, training data first."""
        return (*self.train_data, *self.test_data)


SETTINGS = {
    "ukp": Setting(("ukp",), n_folds=4, has_all_losses=True),
    "ukp_16_folds": Setting(("ukp",), n_folds=16, has_single_seed=True),
    "ukp_32_folds": Setting(("ukp",), n_folds=32, group_by="topic", has_single_seed=True),
    "ibm": Setting(("ibm",), n_folds=4, has_all_losses=True),
    "ukp_transfer": Setting(("ukp",), ("ibm", "webis"), has_topic_ablation=True),
    "ibm_transfer": Setting(("ibm",), ("ukp", "webis"), has_topic_ablation=True),
    "ukp+ibm_to_webis": Setting(("ukp", "ibm"), ("webis",), has_topic_ablation=True),
}


class Cell(NamedTuple):
    """One training run: its setting, seed, loss, use of the topic, and fold."""

    setting: str
    seed: int
    loss: str
    uses_topic: bool  # whether the network reads the topic, not only the argument
    fold: int

    @property
    def network(self) -> str:
        """Name of the network, independent of fold and seed."""
        return self.loss if self.uses_topic else f"{self.loss} (argument only)"


def list_cells(settings: Sequence[str], recipe: Recipe, n_seeds: int) -> list[Cell]:
    """List the cells of settings in training order, seed by seed."""
    assert isinstance(recipe.task, QualitySpec)
    return [
        Cell(name, seed, loss, uses_topic, fold)
        for seed in range(n_seeds)
        for name in settings
        if not (seed and SETTINGS[name].has_single_seed)
        for uses_topic in ((True, False) if SETTINGS[name].has_topic_ablation else (True,))
        for loss in (LOSSES if SETTINGS[name].has_all_losses else [recipe.task.loss])
        for fold in range(SETTINGS[name].n_folds)
    ]


class SettingRunner:
    """Runner that trains a network for each fold of a setting and scores arguments with it."""

    def __init__(
        self, setting: Setting, tables: dict[str, pd.DataFrame], recipe: Recipe, device: str
    ) -> None:
        """Split the data into folds; a cell overrides loss, seed and network.topic of `recipe`."""
        self.table = pd.concat([tables[name] for name in setting.data_sets], ignore_index=True)
        self.setting = setting
        self._recipe = recipe
        self._device = device
        splits = [_split_into_folds(tables[name], name, setting) for name in setting.train_data]
        self.folds = [
            Fold(*(frozenset[str]().union(*names) for names in zip(*folds, strict=True)))
            for folds in zip(*splits, strict=True)
        ]

    def mask_split(self, fold: int, split: str) -> np.ndarray:
        """Return a mask (rows,) of a fold's `train`, `dev` or `test` arguments."""
        is_in_split = self.table[self.setting.group_by].isin(getattr(self.folds[fold], split))
        is_training_data = self.table["data"].isin(self.setting.train_data)
        return (is_in_split & is_training_data | (~is_training_data & (split == "test"))).to_numpy()

    def mask_scored(self, fold: int) -> np.ndarray:
        """Return a mask (rows,) of what a fold's network scores; for z-scores also training."""
        splits = ("train", "dev", "test") if self.setting.has_all_losses else ("dev", "test")
        mask: np.ndarray = np.any([self.mask_split(fold, split) for split in splits], axis=0)
        return mask

    def train_and_score(self, cell: Cell) -> np.ndarray:
        """Train a cell's network; return scores (rows,) float32, NaN outside `mask_scored`."""
        task = replace(self._recipe.task, loss=cell.loss)
        network = {**self._recipe.network, "topic": cell.uses_topic}
        recipe = replace(self._recipe, seed=cell.seed, network=network, task=task)
        train, dev = (
            self.table.loc[self.mask_split(cell.fold, split), COLUMNS] for split in ("train", "dev")
        )
        try:
            trainee = train_network(recipe, train, dev, self._device)
        except TrainingError as error:
            location = f"{cell.setting}, {cell.network}, seed {cell.seed}, fold {cell.fold + 1}"
            raise TrainingError(f"{location}: {error}") from None
        values = np.full(len(self.table), np.nan, dtype=np.float32)
        mask = self.mask_scored(cell.fold)
        values[mask] = score_arguments(trainee, self.table.loc[mask, COLUMNS], self._device)
        return values

    def combine_test_scores(
        self, fold_scores: Sequence[np.ndarray], is_standardised: bool = False
    ) -> np.ndarray:
        """Combine the folds' test scores (rows,), or z-scores by training scores; NaN if
        untested."""
        test_scores = np.full(len(self.table), np.nan)
        for fold, values in enumerate(fold_scores):
            test, train = (self.mask_split(fold, split) for split in ("test", "train"))
            test_scores[test] = values[test]
            if is_standardised:
                test_scores[test] = (values[test] - values[train].mean()) / values[train].std()
        return test_scores


def _split_into_folds(table: pd.DataFrame, name: str, setting: Setting) -> list[Fold]:
    names = table[setting.group_by].unique().tolist()
    try:
        return split_folds(names, setting.n_folds, N_DEV[name], SPLIT_SEED)
    except ValueError as error:
        cause = f"{name}, split by {setting.group_by}: {error}"
        raise InputError(f"{cause}; use the full data set") from None
