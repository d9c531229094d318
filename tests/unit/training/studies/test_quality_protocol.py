"""Tests of the folds and of the settings: no debate is split between training and test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from submission.errors import InputError
from tests.unit.training.data.quality_files import write_quality
from training.data.quality import DATASETS, load_table, prepare_quality
from training.evaluation.folds import split_folds
from training.fitting.listwise_losses import LOSSES
from training.fitting.recipe import Recipe
from training.studies.argument_quality import protocol
from training.studies.argument_quality.protocol import N_DEV, SETTINGS, SettingRunner, list_cells
from training.tasks.quality import QualitySpec

RECIPE = Recipe(ranker="tfr_bert", task=QualitySpec(("ukp", "ibm"), loss="hinge"))
Tables = dict[str, pd.DataFrame]


def test_split_folds_depends_on_seed_and_rejects_few_names() -> None:
    similar_names = ["", "\x00", "a", "a\x00"]  # a numpy array of strings drops trailing zero characters
    assert sorted(name for fold in split_folds(similar_names, 4, 0, 0) for name in fold.test) == similar_names
    names = [str(n) for n in range(16)]
    assert split_folds(names[::-1], 4, 3, 0) == split_folds(names, 4, 3, 0) != split_folds(names, 4, 3, 1)
    assert sorted(len(fold.test) for fold in split_folds(names, 3, 3, 0)) == [5, 5, 6]
    assert len({fold.dev for fold in split_folds(names, 4, 3, 0)}) == 4
    for n_names, n_folds, dev in ((3, 4, 0), (8, 4, 6), (3, 1, 3)):
        with pytest.raises(ValueError, match=f"{n_names} names: too few for {n_folds} folds with {dev} dev names each"):
            split_folds(names[:n_names], n_folds, dev, 0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    work = tmp_path_factory.mktemp("quality")
    prepare_quality(write_quality(work / "data"), list(DATASETS), work)
    return {name: load_table(work, name) for name in DATASETS}


def make_runner(name: str, tables: Tables) -> SettingRunner:
    return SettingRunner(SETTINGS[name], tables, RECIPE, torch.device("cpu"))


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_split_no_debate(name: str, tables: Tables) -> None:
    setting, runner = SETTINGS[name], make_runner(name, tables)
    assert len(runner.folds) == setting.n_folds
    tested = np.zeros(len(runner.table), dtype=int)
    for fold in range(setting.n_folds):
        rows = {split: runner.mask_split(fold, split) for split in ("train", "dev", "test")}
        assert (np.sum([*rows.values()], axis=0) == 1).all()
        units = {split: set(runner.table.loc[mask, setting.group_by]) for split, mask in rows.items()}
        assert not units["train"] & units["dev"] | units["train"] & units["test"] | units["dev"] & units["test"]
        assert set(runner.table.loc[rows["train"] | rows["dev"], "data"]) == {*setting.train_data}
        assert len(units["dev"]) == sum(N_DEV[data] for data in setting.train_data)
        tested += rows["test"]
        if held_out := {"ukp_16_folds": ("debate", 2), "ukp_32_folds": ("topic", 1)}.get(name):  # unit and its topics
            test = runner.table[rows["test"]]
            assert (test[held_out[0]].nunique(), test["topic"].nunique()) == (1, held_out[1])
    assert (tested == 1).all() if setting.n_folds > 1 else (tested == runner.table["data"].isin(setting.test_data)).all()
    assert "webis" not in setting.train_data


def test_cells_are_ordered_by_seed() -> None:
    cells = list_cells(list(SETTINGS), RECIPE, 3)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    assert len(set(cells)) == len(cells)
    counts = pd.Series([(cell.setting, cell.network) for cell in cells]).value_counts()
    for name in ("ukp", "ibm"):
        assert {loss: counts[name, loss] for loss in LOSSES} == dict.fromkeys(LOSSES, 4 * 3)
    assert {name: counts[name, "hinge"] for name in SETTINGS if name not in ("ukp", "ibm")} == {
        "ukp_16_folds": 16, "ukp_32_folds": 32, "ukp_transfer": 3, "ibm_transfer": 3, "ukp+ibm_to_webis": 3,
    }  # fmt: skip
    assert counts["ukp+ibm_to_webis", "hinge (argument only)"] == 3


def test_scores_of_the_test_folds_are_combined(tables: Tables) -> None:
    runner, rng = make_runner("ukp", tables), np.random.default_rng(0)
    fold_scores = [rng.normal(fold, fold + 1, len(runner.table)) for fold in range(4)]
    plain, standardised = (runner.combine_test_scores(fold_scores, is_standardised) for is_standardised in (False, True))
    for fold, scores in enumerate(fold_scores):
        test, train = runner.mask_split(fold, "test"), scores[runner.mask_split(fold, "train")]
        assert plain[test] == pytest.approx(scores[test])
        assert standardised[test] == pytest.approx((scores[test] - train.mean()) / train.std())
    transfer = make_runner("ukp_transfer", tables)
    is_untested = np.isnan(transfer.combine_test_scores([np.ones(len(transfer.table))]))
    assert is_untested.tolist() == (transfer.table["data"] == "ukp").tolist()


def test_few_debates_raise(tables: Tables) -> None:
    five_debates = tables["ukp"]["debate"].unique()[:5]
    with pytest.raises(InputError, match=r"ukp, split by debate: 5 names: too few for 4 folds .*; use the full data set"):
        make_runner("ukp", {**tables, "ukp": tables["ukp"][tables["ukp"]["debate"].isin(five_debates)]})


@pytest.mark.parametrize(
    ("name", "splits"),
    [("ukp", ("train", "dev", "test")), ("ukp_16_folds", ("dev", "test")), ("ukp_transfer", ("dev", "test"))],
)
def test_network_scores_the_required_splits(
    name: str, splits: tuple[str, ...], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "train_network", lambda *_: None)
    monkeypatch.setattr(protocol, "score_arguments", lambda _, table, device: table["premise"].str.len().to_numpy())
    runner = make_runner(name, tables)
    scores = runner.train_and_score(list_cells([name], RECIPE, 1)[0])
    rows = np.sum([runner.mask_split(0, split) for split in splits], axis=0) == 1
    assert scores[rows].tolist() == runner.table["premise"][rows].str.len().tolist()
    assert np.isnan(scores[~rows]).all()
