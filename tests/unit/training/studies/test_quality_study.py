"""Tests of the argument-quality study on small data."""

from io import BytesIO
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace
from PIL import Image, ImageChops

from aragorn.errors import TrainingError
from aragorn_training.__main__ import main
from aragorn_training.data.quality import FOLDERS, load_table, prepare_quality
from aragorn_training.data.quality import Options as QualityOptions
from aragorn_training.evaluation.folds import split_folds
from aragorn_training.evaluation.plots import render_png
from aragorn_training.fitting.listwise import LOSSES
from aragorn_training.fitting.recipe import EncoderSettings, Recipe
from aragorn_training.report.published import RESULTS
from aragorn_training.studies.argument_quality import _build_key, protocol
from aragorn_training.studies.argument_quality.plot import NETWORKS, draw_correlations
from aragorn_training.studies.argument_quality.protocol import (
    N_DEV,
    SETTINGS,
    Setting,
    SettingRunner,
    list_cells,
)
from aragorn_training.studies.argument_quality.table import MEASURES, _tabulate_measures
from aragorn_training.tasks.quality import QualitySpec
from aragorn_training.tuning.quality import MEASURES as RERANKING_MEASURES
from tests.conftest import argv
from tests.unit.training.conftest import write_quality

HINGE_RECIPE = Recipe(ranker="tfr_bert", task=QualitySpec(("ukp", "ibm"), loss="hinge"))


def test_split_folds_depends_on_seed_and_rejects_few_names():
    # a numpy array of strings drops trailing zero characters
    similar_names = ["", "\x00", "a", "a\x00"]
    tested = [name for fold in split_folds(similar_names, 4, 0, 0) for name in fold.test]
    assert sorted(tested) == similar_names
    names = [str(n) for n in range(16)]
    folds = split_folds(names, 4, 3, 0)
    assert split_folds(names[::-1], 4, 3, 0) == folds != split_folds(names, 4, 3, 1)
    assert sorted(len(fold.test) for fold in split_folds(names, 3, 3, 0)) == [5, 5, 6]
    assert len({fold.dev for fold in split_folds(names, 4, 3, 0)}) == 4
    for n_names, n_folds, dev in ((3, 4, 0), (8, 4, 6), (3, 1, 3)):
        message = f"{n_names} names: too few for {n_folds} folds with {dev} dev names each"
        with pytest.raises(ValueError, match=message):
            split_folds(names[:n_names], n_folds, dev, 0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    work = tmp_path_factory.mktemp("quality")
    prepare_quality(QualityOptions(inputs=(write_quality(work / "data"),), work_dir=work))
    return {name: load_table(work, name) for name in FOLDERS}


def make_runner(name, tables):
    return SettingRunner(SETTINGS[name], tables, HINGE_RECIPE, "cpu")


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_split_no_debate(name, tables):
    setting = SETTINGS[name]
    runner = make_runner(name, tables)
    assert len(runner.folds) == setting.n_folds
    tested = np.zeros(len(runner.table), dtype=int)
    for fold in range(setting.n_folds):
        rows = {split: runner.mask_split(fold, split) for split in ("train", "dev", "test")}
        assert (np.sum([*rows.values()], axis=0) == 1).all()
        units = {
            split: set(runner.table.loc[mask, setting.group_by]) for split, mask in rows.items()
        }
        for first, second in combinations(units.values(), 2):
            assert not first & second
        assert set(runner.table.loc[rows["train"] | rows["dev"], "data"]) == {*setting.train_data}
        assert len(units["dev"]) == sum(N_DEV[data] for data in setting.train_data)
        tested += rows["test"]
        # unit and its topics
        if held_out := {"ukp_16_folds": ("debate", 2), "ukp_32_folds": ("topic", 1)}.get(name):
            test = runner.table[rows["test"]]
            assert (test[held_out[0]].nunique(), test["topic"].nunique()) == (1, held_out[1])
    is_tested = setting.n_folds > 1 or runner.table["data"].isin(setting.test_data)
    assert (tested == is_tested).all()
    assert "webis" not in setting.train_data


def test_cells_are_ordered_by_seed():
    cells = list_cells(list(SETTINGS), HINGE_RECIPE, 3)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    assert len(set(cells)) == len(cells)
    counts = pd.Series([(cell.setting, cell.network) for cell in cells]).value_counts()
    for name in ("ukp", "ibm"):
        assert {loss: counts[name, loss] for loss in LOSSES} == dict.fromkeys(LOSSES, 4 * 3)
    assert {name: counts[name, "hinge"] for name in SETTINGS if name not in ("ukp", "ibm")} == {
        "ukp_16_folds": 16, "ukp_32_folds": 32, "ukp_transfer": 3, "ibm_transfer": 3, "ukp+ibm_to_webis": 3,
    }  # fmt: skip
    assert counts["ukp+ibm_to_webis", "hinge (argument only)"] == 3


def test_scores_of_the_test_folds_are_combined(tables):
    runner = make_runner("ukp", tables)
    rng = np.random.default_rng(0)
    fold_scores = [rng.normal(fold, fold + 1, len(runner.table)) for fold in range(4)]
    plain, standardised = (
        runner.combine_test_scores(fold_scores, is_standardised)
        for is_standardised in (False, True)
    )
    for fold, scores in enumerate(fold_scores):
        test = runner.mask_split(fold, "test")
        train = scores[runner.mask_split(fold, "train")]
        assert plain[test] == pytest.approx(scores[test])
        assert standardised[test] == pytest.approx((scores[test] - train.mean()) / train.std())
    transfer = make_runner("ukp_transfer", tables)
    is_untested = np.isnan(transfer.combine_test_scores([np.ones(len(transfer.table))]))
    assert is_untested.tolist() == (transfer.table["data"] == "ukp").tolist()


RECIPE = """ranker = "tfr_bert"
encoder = { name = "tiny", frozen_layers = 2, learning_rate = 0.0003 }
lengths = { query = 20, premise = 40 }
quality = { datasets = ["ukp", "ibm"], loss = "hinge" }
[training]
epochs = 1
validations_per_epoch = 1
learning_rate = 0.001
batch_size = 12
micro_batch_size = 12
"""
WEBIS = ("--part", "ukp+ibm_to_webis")
BASELINES = ["length", "untrained"]
RERANKERS = [*BASELINES, "hinge", "hinge (argument only)"]


@pytest.fixture
def run(encoder, tmp_path, monkeypatch):
    """Return a function that writes table.csv with a small encoder and one seed."""
    monkeypatch.setattr("aragorn.inference.pretrained.ENCODER_DIR", encoder.parent)
    (tmp_path / "mine.toml").write_text(RECIPE)
    work = ["--work-dir", str(tmp_path / "work")]
    assert main(["prepare", "quality", "-i", str(write_quality(tmp_path / "data", 8)), *work]) == 0

    def evaluate(*flags):
        paths = [*work, "--recipe", str(tmp_path / "mine.toml"), "-o", str(tmp_path / "table.csv")]
        options = argv("--device cpu --processes 1 --repetitions 1")
        return main(["study", "argument-quality", *paths, *options, *flags])

    return evaluate


def read_table(file):
    figures = ("mean", "ci_low", "ci_high", "sd", "n_seeds")
    return pd.read_csv(file, keep_default_na=False, na_values=dict.fromkeys(figures, ""))


def test_shipped_plot_shows_the_shipped_table():
    table = read_table(RESULTS / "argument_quality.csv")
    figure = draw_correlations(table, "logistic")
    networks, losses = figure.axes
    labels = [label.get_text() for label in networks.get_yticklabels()]
    assert (labels[0], labels[-1], len(labels)) == ("UKP → UKP", "UKP and IBM → Webis", 7)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [label for label, _ in NETWORKS.values()]
    index = ["setting", "test_set", "target", "network", "measure"]
    means = table.set_index(index)["mean"]
    expected = means["ukp_transfer", "webis", "combined", "logistic", "Spearman"]
    [tfr_bert] = [bar[0] for bar in networks.containers if bar.get_label() == "TFR-BERT"]
    heights = np.round(tfr_bert.get_ydata().astype(float))
    assert tfr_bert.get_xdata()[heights == labels.index("UKP → Webis")] == [expected]
    names = [label.get_text() for label in losses.get_yticklabels()]
    values = losses.containers[0][0].get_xdata()
    expected = means["ukp", "ukp", "", "list_mle", "Spearman"]
    assert values[names.index("ListMLE")] == expected
    with Image.open(RESULTS / "argument_quality.png") as shipped:
        picture = Image.open(BytesIO(render_png(figure)))
        assert (
            ImageChops.difference(shipped.convert("RGB"), picture.convert("RGB")).getbbox() is None
        )


@pytest.mark.slow
def test_study_tabulates_folds_and_ensembles(run, tmp_path, capsys):
    assert run("--part", "ukp") == 0
    assert "ensemble (standardised)" in capsys.readouterr().out
    table = read_table(tmp_path / "table.csv")
    assert list(dict.fromkeys(table["network"])) == [
        *BASELINES, *LOSSES, "ensemble", "ensemble (standardised)", "ensemble of Favreau 2022",
    ]  # fmt: skip
    rows = table.set_index(["network", "measure"]).sort_index()
    # in these data length equals quality
    assert rows.loc[("length", "Spearman"), "mean"] == pytest.approx(1, abs=1e-3)
    for loss in LOSSES:
        assert {*rows.loc[loss].index} == {*MEASURES, "Spearman (dev)"}
        spearman = rows.loc[(loss, "Spearman")]
        assert spearman["ci_low"] < spearman["mean"] < spearman["ci_high"]
    assert (rows.loc[[*LOSSES], "n_seeds"] == 1).all()
    assert rows.loc[[(loss, "Pearson") for loss in LOSSES], "mean"].nunique() == len(LOSSES)


@pytest.mark.slow
def test_study_tabulates_transfer_and_reranking(run, tmp_path):
    assert run(*WEBIS) == 0
    table = read_table(tmp_path / "table.csv")
    index = ["setting", "target", "network", "measure"]
    means_by_setting = table.set_index(index)["mean"].sort_index()
    means = means_by_setting["ukp+ibm_to_webis"]
    targets = {"combined", "rhetorical", "logical", "dialectical", ""}
    assert {*means.index.unique("target")} == targets
    assert {*means["combined"].index.unique("network")} == {*RERANKERS}
    combined = means["combined", "hinge", "Spearman"]
    # opposite in these data
    assert means["dialectical", "hinge", "Spearman"] == pytest.approx(-combined)
    means = means_by_setting["webis_reranking"]
    original = means["", "original order"]
    assert original[RERANKING_MEASURES[0]] < 1
    for target in ("quality only", "relevance and quality"):
        for network in RERANKERS:
            row = means[target, network]
            gain_names = [f"Δ {name}" for name in RERANKING_MEASURES]
            assert {*row.index} == {*RERANKING_MEASURES, *gain_names}
            gains = [row[f"Δ {name}"] for name in RERANKING_MEASURES]
            expected = [row[name] - original[name] for name in RERANKING_MEASURES]
            assert gains == pytest.approx(expected, abs=2e-4)


def test_rows_average_seeds_with_intervals_over_topics():
    seeds = [pd.DataFrame({"Spearman": values}) for values in ([0.2, 0.4, 0.6], [0.4, 0.6, 0.8])]
    [row] = _tabulate_measures(("ukp", "ukp", "", "mse"), seeds)
    assert (row["mean"], row["sd"]) == pytest.approx((0.5, 0.2 / 2**0.5))
    # a resample may repeat one of three topics
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((0.3, 0.7))
    assert (row["measure"], row["n_seeds"]) == ("Spearman", 2)


def test_cache_key_does_not_depend_on_the_settings_of_cells(encoder, monkeypatch):
    monkeypatch.setattr("aragorn.inference.pretrained.ENCODER_DIR", encoder.parent)

    def get_key(recipe):
        return _build_key(Setting(("ukp",)), {"ukp": pd.DataFrame()}, recipe, "cpu")

    task = QualitySpec(("ukp",), loss="mse")
    recipe = Recipe(ranker="tfr_bert", task=task, encoder=EncoderSettings(name="tiny"))
    assert get_key(recipe) == get_key(
        replace(recipe, seed=3, network={"topic": False}, task=replace(task, loss="hinge"))
    )
    assert get_key(recipe) != get_key(replace(recipe, task=replace(task, ranks_within="topic")))
    expected = get_key(replace(recipe, encoder=replace(recipe.encoder, frozen_layers=3)))
    assert get_key(recipe) != expected


def test_study_reports_errors(run, tmp_path, monkeypatch, capsys):
    def diverge(*_):
        raise TrainingError("the loss is nan")

    monkeypatch.setattr(protocol, "train_network", diverge)
    (tmp_path / "empty").mkdir()
    (tmp_path / "webis.toml").write_text(RECIPE.replace('"ibm"', '"webis"'))  # for testing only
    for code, message, flags in (
        (7, "ukp, pointwise, seed 0, fold 1: the loss is nan", ("--part", "ukp")),
        (
            2,
            "the recipe of sbert has no [quality] table; choose a tfr_bert recipe",
            ("--recipe", "sbert"),
        ),
        (2, "quality.datasets", ("--recipe", str(tmp_path / "webis.toml"))),
        (3, "prepare quality", (*WEBIS, "--work-dir", str(tmp_path / "empty"))),
    ):
        assert run(*flags) == code
        assert message in capsys.readouterr().err
