"""Folds never split a debate, and the protocol's parts never show a network what tests it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from submission.errors import InputError
from tests.unit.training.data.quality_files import write_quality
from training.data.quality import DATASETS, load_table, prepare_quality
from training.evaluation.folds import split_folds
from training.fitting.listwise_losses import LOSSES
from training.fitting.recipe import Recipe
from training.studies.argument_quality import protocol
from training.studies.argument_quality.protocol import N_DEV, SETTINGS, SettingRunner, all_cells
from training.tasks.quality import QualitySpec

RECIPE = Recipe(ranker="tfr_bert", task=QualitySpec(("ukp", "ibm"), loss="hinge"))


@given(
    names=st.sets(st.text(max_size=3), min_size=2, max_size=20),
    number=st.integers(1, 8),
    dev=st.integers(0, 4),
    seed=st.integers(0, 9),
)
def test_each_name_tests_once_and_is_in_one_part_of_a_fold(names: set[str], number: int, dev: int, seed: int) -> None:
    assume(number <= len(names) and len(names) - (-(-len(names) // number) if number > 1 else 0) > dev)
    found = split_folds(list(names), number, dev, seed)
    assert len(found) == number
    tested = [name for fold in found for name in fold.test]
    assert sorted(tested) == (sorted(names) if number > 1 else [])
    sizes = [len(fold.test) for fold in found]
    assert max(sizes) - min(sizes) <= 1
    for fold in found:
        assert fold.train | fold.dev | fold.test == names
        assert len(fold.train) + len(fold.dev) + len(fold.test) == len(names)
        assert len(fold.dev) == dev
        assert fold.train
    assert split_folds(sorted(names), number, dev, seed) == found


def test_the_seed_deals_enough_names_which_stay_what_they_are() -> None:
    odd = ["", "\x00", "a", "a\x00"]  # an array of texts drops a zero at the end
    assert sorted(name for fold in split_folds(odd, 4, 0, 0) for name in fold.test) == odd
    names = [str(number) for number in range(16)]
    assert split_folds(names, 4, 3, 0) != split_folds(names, 4, 3, 1)
    assert len({fold.dev for fold in split_folds(names, 4, 3, 0)}) == 4
    for few, number, dev in ((3, 4, 0), (8, 4, 6), (3, 1, 3)):
        with pytest.raises(ValueError, match=f"{few} names: too few for {number} folds with {dev} for dev"):
            split_folds(names[:few], number, dev, 0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    work = tmp_path_factory.mktemp("quality")
    prepare_quality(write_quality(work / "data"), list(DATASETS), work)
    return {name: load_table(work, name) for name in DATASETS}


def trial(name: str, tables: dict[str, pd.DataFrame]) -> SettingRunner:
    return SettingRunner(SETTINGS[name], tables, RECIPE, torch.device("cpu"))


LEFT_OUT = {"ukp_16_folds": {"debate": 2}, "ukp_32_folds": {"topic": 1}}  # what is left out as a whole, and of how many lists


@pytest.mark.parametrize("name", SETTINGS)
def test_no_debate_is_split(name: str, tables: dict[str, pd.DataFrame]) -> None:
    part, made = SETTINGS[name], trial(name, tables)
    assert len(made.n_folds) == part.n_folds
    tested = np.zeros(len(made.table), dtype=int)
    for fold in range(part.n_folds):
        rows = {which: made.split_mask(fold, which) for which in ("train", "dev", "test")}
        assert (np.sum([*rows.values()], axis=0) == 1).all()
        units = {which: set(made.table.loc[own, part.group_by]) for which, own in rows.items()}
        assert not units["train"] & units["dev"] | units["train"] & units["test"] | units["dev"] & units["test"]
        assert set(made.table.loc[rows["train"] | rows["dev"], "data"]) == {*part.train_data}
        assert len(units["dev"]) == sum(N_DEV[data] for data in part.train_data)
        tested += rows["test"]
        for column, lists in LEFT_OUT.get(name, {}).items():
            test = made.table[rows["test"]]
            assert (test[column].nunique(), test["topic"].nunique()) == (1, lists)
    assert (tested == 1).all() if part.n_folds > 1 else (tested == made.table["data"].isin(part.test_data)).all()
    assert "webis" not in part.train_data


def test_networks_are_trained_a_seed_after_the_other() -> None:
    found = all_cells(list(SETTINGS), RECIPE, 3)
    assert [cell.seed for cell in found] == sorted(cell.seed for cell in found)
    assert len(set(found)) == len(found)
    counts = pd.Series([(cell.setting, cell.network) for cell in found]).value_counts()
    assert {loss: counts["ukp", loss] for loss in LOSSES} == dict.fromkeys(LOSSES, 4 * 3)
    assert {name: counts[name, "hinge"] for name in SETTINGS if name != "ukp"} == {
        "ukp_16_folds": 16, "ukp_32_folds": 32, "ibm": 12, "ukp_transfer": 3, "ibm_transfer": 3, "ukp+ibm_to_webis": 3,
    }  # fmt: skip
    assert counts["ukp+ibm_to_webis", "hinge (argument only)"] == 3


def test_folds_scores_become_one_array_where_there_are_enough_debates(tables: dict[str, pd.DataFrame]) -> None:
    made = trial("ukp", tables)
    rng = np.random.default_rng(0)
    found = [rng.normal(fold, fold + 1, len(made.table)) for fold in range(4)]
    plain, standardised = made.combine_test_scores(found), made.combine_test_scores(found, standardised=True)
    for fold, own in enumerate(found):
        test, train = made.split_mask(fold, "test"), own[made.split_mask(fold, "train")]
        assert plain[test] == pytest.approx(own[test])
        assert standardised[test] == pytest.approx((own[test] - train.mean()) / train.std())
    across = trial("ukp_transfer", tables)
    assert (
        np.isnan(across.combine_test_scores([np.ones(len(across.table))])).tolist() == (across.table["data"] == "ukp").tolist()
    )
    few = tables["ukp"]["debate"].unique()[:5]
    with pytest.raises(InputError, match=r"ukp, split by debate: 5 names: too few for 4 folds .*; use the full data set"):
        trial("ukp", {**tables, "ukp": tables["ukp"][tables["ukp"]["debate"].isin(few)]})


@pytest.mark.parametrize(
    ("name", "parts"),
    [("ukp", ("train", "dev", "test")), ("ukp_16_folds", ("dev", "test")), ("ukp_transfer", ("dev", "test"))],
)
def test_a_network_scores_what_it_is_asked(
    name: str, parts: tuple[str, ...], tables: dict[str, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[pd.DataFrame] = []
    monkeypatch.setattr(protocol, "trained", lambda *arguments: None)
    monkeypatch.setattr(protocol, "scores", lambda network, table, device: asked.append(table) or np.arange(len(table)))
    made = trial(name, tables)
    found = made.train_and_score(all_cells([name], RECIPE, 1)[0])
    rows = np.sum([made.split_mask(0, which) for which in parts], axis=0) == 1
    assert 0 < rows.sum() <= len(made.table)
    assert found[rows].tolist() == list(range(rows.sum()))
    assert np.isnan(found[~rows]).all()
    assert asked[0]["docno"].tolist() == made.table["docno"][rows].tolist()
