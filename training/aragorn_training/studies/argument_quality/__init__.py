"""Evaluate TFR-BERT by cross-validation and on other data sets (Favreau et al. 2022)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from msgspec.structs import replace
from sklearn.linear_model import RidgeCV

from aragorn.engine import choose_device
from aragorn.errors import UsageError
from aragorn.index.dense import encode_texts
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.options import option
from aragorn.versions import describe_versions
from aragorn_training.data.quality import load_table
from aragorn_training.fitting.initialisation import build_network
from aragorn_training.fitting.listwise import LOSSES
from aragorn_training.fitting.recipe import EncoderSettings, Recipe
from aragorn_training.mapping import get_default_process_count, map_cached
from aragorn_training.options import ProcessOptions, Result, StudyOptions, parse_positive_int
from aragorn_training.studies.argument_quality import table
from aragorn_training.studies.argument_quality.plot import plot_correlations
from aragorn_training.studies.argument_quality.protocol import (
    SETTINGS,
    Cell,
    Setting,
    SettingRunner,
    list_cells,
)
from aragorn_training.tasks import load_recipe
from aragorn_training.tasks.quality import QualitySpec

LENGTH = "length"
UNTRAINED = "untrained"
ENSEMBLE = "ensemble"
LISTWISE = tuple(loss for loss in LOSSES if loss != "pointwise")  # ensemble members
RERANKING_SETTING = "ukp+ibm_to_webis"  # setting whose networks re-rank Webis-ArgQuality-20
FILE = "argument_quality.csv"
FIRST_COLUMNS = ("setting", "test_set", "target")
DIGITS = 4
KEY = "setting"
ORDER = (*SETTINGS, table.RERANKING)  # of the rows
# one is selected by leave-one-out cross-validation
RIDGE_ALPHAS = tuple(10.0**power for power in range(-3, 4))


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, ProcessOptions):
    """Options of the study."""

    recipe: str = option(
        "tfr_bert",
        metavar="RECIPE",
        help="recipe name in training/aragorn_training/configs/recipes, or .toml file",
    )
    parts: tuple[str, ...] = option(
        tuple(SETTINGS), "--part", choices=tuple(SETTINGS), help="setting to evaluate; repeatable"
    )
    repetitions: int = option(3, parse=parse_positive_int, help="number of seeds per network")


def run(options: Options) -> Result:
    """Train and evaluate all networks of the settings.

    Returns:
        The table (columns `table.COLUMNS`) and a plot, see `plot_correlations`.
        One row per network and measure: macro mean over topics, 95 % bootstrap interval, and
        deviation over seeds. For re-ranked lists, each measure also has its gain over the original
        order.
    """
    recipe = load_recipe(options.recipe)
    if not isinstance(recipe.task, QualitySpec):
        network = recipe.ranker or recipe.tagger
        raise UsageError(
            f"the recipe of {network} has no [quality] table; choose a tfr_bert recipe"
        )
    settings = list(dict.fromkeys(options.parts))
    device = choose_device(options.device)
    work_dir = options.work_dir
    tables = {name: load_table(work_dir, name) for name in ("ukp", "ibm")} | {
        "webis": load_table(work_dir, "webis", columns=None)
    }
    runners = {name: SettingRunner(SETTINGS[name], tables, recipe, device) for name in settings}
    keys = {
        name: _build_key(runner.setting, tables, recipe, device) for name, runner in runners.items()
    }
    scores = map_cached(
        partial(_train_and_score, runners),
        list_cells(settings, recipe, options.repetitions),
        work_dir,
        name="quality",
        key=None,
        result_type=np.ndarray,
        identify=lambda cell: (keys[cell.setting], cell),
        n_processes=options.processes or get_default_process_count(device),
    )
    data_sets = {name: None for runner in runners.values() for name in runner.setting.data_sets}
    embeddings = {
        name: _embed_arguments(tables[name]["premise"].tolist(), recipe.encoder, device)
        for name in data_sets
    }
    return _tabulate_settings(runners, scores, embeddings, recipe.task.loss)


def _tabulate_settings(
    runners: Mapping[str, SettingRunner],
    scores: Mapping[Cell, np.ndarray],
    embeddings: Mapping[str, np.ndarray],
    loss: str,
) -> Result:
    """Tabulate the scores of all cells, and plot the results of the networks."""
    rows: table.Rows = []
    for name, runner in runners.items():
        folds = table.group_folds(scores, name)
        setting_embeddings = np.concatenate(
            [embeddings[data_set] for data_set in runner.setting.data_sets]
        )
        networks = _collect_scores(runner, folds, setting_embeddings)
        rows += [
            *table.tabulate_test_sets(name, runner, networks),
            *table.tabulate_dev(name, runner, folds),
        ]
        if name == RERANKING_SETTING:
            rows += table.tabulate_reranking(runner, networks)
    results = pd.DataFrame(rows, columns=table.COLUMNS).astype({"n_seeds": "Int64"})
    return Result(results, {"": plot_correlations(results, loss)})


def _train_and_score(runners: Mapping[str, SettingRunner], cell: Cell) -> np.ndarray:
    return runners[cell.setting].train_and_score(cell)


def _build_key(
    setting: Setting, tables: Mapping[str, pd.DataFrame], recipe: Recipe, device: str
) -> tuple[Any, ...]:
    data = [
        hashlib.sha256(tables[name].to_csv(index=False).encode()).hexdigest()
        for name in setting.data_sets
    ]
    network_class = recipe.task.resolve_network_class(recipe)
    versions = describe_versions(
        "aragorn_training.fitting.training_loop", type(recipe.task), network_class
    )
    settings: dict[str, Any] = msgspec.to_builtins(recipe)
    settings["network"].pop("topic", None)  # cells determine topic, loss, data sets and seed
    del settings["task"]["loss"], settings["task"]["datasets"], settings["seed"]
    return settings, PretrainedEncoder(recipe.encoder.name).sha256, versions, device, data


def _embed_arguments(texts: Sequence[str], encoder: EncoderSettings, device: str) -> np.ndarray:
    """Encode texts with the pretrained encoder; return embeddings (texts, dimensions) float64."""
    trainee = build_network(replace(load_recipe("sbert"), encoder=encoder), Path(), Path())
    ids = [trainee.tokeniser.encode_premise(text) for text in texts]
    return encode_texts(ids, trainee.network.to(device).eval(), device).astype(np.float64)


def _score_by_ridge(
    embeddings: np.ndarray, arguments: pd.DataFrame, train_mask: np.ndarray
) -> np.ndarray:
    """Return scores (rows,) by ridge regression on dense ranks over the topic's maximum."""
    by_topic = arguments.groupby(["data", "topic"])["score"]
    ranks = by_topic.rank(method="dense") / by_topic.transform("nunique")
    ridge = RidgeCV(RIDGE_ALPHAS).fit(embeddings[train_mask], ranks.to_numpy()[train_mask])
    return np.asarray(ridge.predict(embeddings))


def _collect_scores(
    runner: SettingRunner, folds: table.ScoresByFold, embeddings: np.ndarray
) -> table.ScoresByNetwork:
    """Collect test scores by network, baselines and ensembles included: (rows,) per seed."""
    train_masks = [runner.mask_split(fold, "train") for fold in range(runner.setting.n_folds)]
    ridge = runner.combine_test_scores(
        [_score_by_ridge(embeddings, runner.table, mask) for mask in train_masks]
    )
    lengths = table.count_argument_words(runner.table)
    networks: table.ScoresByNetwork = {LENGTH: [lengths], UNTRAINED: [ridge]}
    for (name, _), fold_scores in folds.items():
        networks.setdefault(name, []).append(runner.combine_test_scores(fold_scores))
    if not runner.setting.has_all_losses:
        return networks
    published_members = table.PUBLISHED_ENSEMBLES[runner.setting.train_data]
    for seed in dict.fromkeys(seed for _, seed in folds):
        for name, losses, is_standardised in (
            (ENSEMBLE, LISTWISE, False),
            (f"{ENSEMBLE} (standardised)", LISTWISE, True),
            (table.PUBLISHED_ENSEMBLE, published_members, False),
        ):
            member_scores = [
                runner.combine_test_scores(folds[loss, seed], is_standardised) for loss in losses
            ]
            networks.setdefault(name, []).append(np.mean(member_scores, axis=0))
    return networks
