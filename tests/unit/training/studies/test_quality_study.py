"""Tests of the argument-quality study on small data: table, cache key and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from msgspec.structs import replace

from submission.errors import TrainingError
from tests.conftest import count_colours
from tests.unit.training.data.quality_files import write_quality
from training.__main__ import main
from training.fitting.listwise_losses import LOSSES
from training.fitting.recipe import EncoderSettings, Recipe
from training.studies.argument_quality import protocol
from training.studies.argument_quality.metrics import MEASURES
from training.studies.argument_quality.protocol import Setting
from training.studies.argument_quality.study import _cache_key
from training.studies.argument_quality.table import PUBLISHED, _tabulate_measures
from training.tasks.quality import QualitySpec
from training.tuning.quality_grid import MEASURES as RERANKING_MEASURES

RECIPE = """ranker = "tfr_bert"
[encoder]
name = "tiny"
frozen_layers = 2
learning_rate = 0.0003
[lengths]
query = 20
premise = 40
[training]
epochs = 1
validations_per_epoch = 1
learning_rate = 0.001
batch_size = 6
micro_batch_size = 6
[quality]
datasets = ["ukp", "ibm"]
loss = "hinge"
"""
PARTS = ["ukp", "ukp+ibm_to_webis"]
BASELINES = ["length", "untrained"]


@pytest.fixture(scope="module")
def quality_work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("quality")
    assert (
        main(["prepare", "quality", "-i", str(write_quality(directory / "data", 8)), "--work-dir", str(directory / "work")])
        == 0
    )
    return directory / "work"


@pytest.fixture
def run(quality_work_dir: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs the study with a small encoder on prepared tables."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODER_DIR", encoder.parent)
    (tmp_path / "mine.toml").write_text(RECIPE)

    def evaluate(name: str, *flags: str) -> int:
        work = tmp_path / name
        work.mkdir(exist_ok=True)
        if not (work / "quality").exists():
            (work / "quality").symlink_to(quality_work_dir / "quality")
        parts = [flag for part in PARTS for flag in ("--part", part)]
        paths = ["--work-dir", str(work), "--recipe", str(tmp_path / "mine.toml"), "-o", str(tmp_path / f"{name}.csv")]
        limits = ["--device", "cpu", "--processes", "1"]
        return main(["study", "argument-quality", *paths, *limits, *(flags or [*parts, "--repetitions", "1"])])

    return evaluate


def read_table(file: Path) -> pd.DataFrame:
    figures = ("mean", "ci_low", "ci_high", "sd", "n_seeds", "published")
    return pd.read_csv(file, keep_default_na=False, na_values=dict.fromkeys(figures, ""))


def test_study_tabulates_settings_and_keeps_other_rows(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("table") == 0
    assert "ensemble (standardised)" in capfd.readouterr().out
    assert count_colours((tmp_path / "table.png").read_bytes()) > 20
    table = read_table(tmp_path / "table.csv")
    by_row = table.set_index(["setting", "target", "network", "measure"]).sort_index()
    means = by_row["mean"]

    ukp = by_row.loc["ukp", ""]
    assert list(dict.fromkeys(table.loc[table["setting"] == "ukp", "network"])) == [
        *BASELINES, *LOSSES, "ensemble", "ensemble (standardised)", "BERT, pointwise", "Potash et al. 2019",
    ]  # fmt: skip
    assert means["ukp", "", "length", "Spearman"] == pytest.approx(1, abs=1e-3)  # in these data length equals quality
    for loss in LOSSES:
        rows = ukp.loc[loss]
        assert {*rows.index} == {*MEASURES, "Spearman (dev)"}
        assert rows.loc["Spearman", "published"] == PUBLISHED["ukp"][loss].spearman
        assert (rows["n_seeds"] == 1).all()
        assert rows.loc["Spearman", "ci_low"] < rows.loc["Spearman", "mean"] < rows.loc["Spearman", "ci_high"]
        assert rows["sd"].isna().all()
    assert np.isnan(means["ukp", "", "Potash et al. 2019", "Spearman"])
    assert ukp["mean"].loc[[*LOSSES], "Pearson"].nunique() == len(LOSSES)

    webis = by_row.loc["ukp+ibm_to_webis"]
    assert {*webis.index.unique("target")} == {"combined", "rhetorical", "logical", "dialectical", ""}
    assert {*webis.loc["combined"].index.unique("network")} == {*BASELINES, "hinge", "hinge (argument only)"}
    dialectical, combined = (webis.loc[(target, "hinge", "Spearman"), "mean"] for target in ("dialectical", "combined"))
    assert dialectical == pytest.approx(-combined)  # opposite in these data

    lists = means["webis_reranking"]
    assert lists["", "original order", RERANKING_MEASURES[0]] < 1
    for network in (*BASELINES, "hinge", "hinge (argument only)"):
        for target in ("quality only", "relevance and quality"):
            row = lists[target, network]
            assert {*row.index} == {*RERANKING_MEASURES, *(f"Δ {name}" for name in RERANKING_MEASURES)}
            for name in RERANKING_MEASURES:
                assert row[f"Δ {name}"] == pytest.approx(row[name] - lists["", "original order", name], abs=2e-4)

    monkeypatch.setattr(protocol, "train_network", None)  # all scores are cached
    before = (tmp_path / "table.csv").read_bytes()
    lines = before.splitlines(keepends=True)
    (tmp_path / "table.csv").write_bytes(b"".join(line for line in lines if line.startswith((b"setting,", b"ukp,"))))
    assert run("table", "--part", "ukp+ibm_to_webis", "--repetitions", "1") == 0
    assert (tmp_path / "table.csv").read_bytes() == before  # rows of the other setting are kept
    table.assign(mean=-9).to_csv(tmp_path / "table.csv", index=False)
    assert run("table", "--part", "ukp+ibm_to_webis", "--repetitions", "1") == 0
    updated = read_table(tmp_path / "table.csv")
    assert {*updated.loc[updated["mean"] == -9, "setting"]} == {"ukp"}  # all other rows are replaced


def test_rows_average_seeds_with_intervals_over_topics() -> None:
    seeds = [pd.DataFrame({"Spearman": values}) for values in ([0.2, 0.4, 0.6], [0.4, 0.6, 0.8])]
    [row] = _tabulate_measures(("ukp", "ukp", "", "mse"), seeds, {"Spearman": 0.68})
    assert row["mean"] == pytest.approx(0.5)
    assert row["sd"] == pytest.approx(0.2 / 2**0.5)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((0.3, 0.7))  # a resample may repeat one of three topics
    assert (row["measure"], row["n_seeds"], row["published"]) == ("Spearman", 2, 0.68)


def test_cache_key_does_not_depend_on_the_settings_of_cells(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submission.inference.pretrained.ENCODER_DIR", encoder.parent)

    def key(recipe: Recipe) -> object:
        return _cache_key(Setting(("ukp",)), {"ukp": pd.DataFrame()}, recipe, torch.device("cpu"))

    task = QualitySpec(("ukp",), loss="mse")
    recipe = Recipe(ranker="tfr_bert", task=task, encoder=EncoderSettings(name="tiny"))
    cell_recipe = replace(recipe, seed=3, network={"topic": False}, task=replace(task, loss="hinge"))
    assert key(recipe) == key(cell_recipe)
    assert key(recipe) != key(replace(recipe, task=replace(task, ranks_within="topic")))
    assert key(recipe) != key(replace(recipe, encoder=replace(recipe.encoder, frozen_layers=3)))


def test_study_reports_errors(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def diverge(*_: object) -> None:
        raise TrainingError("the loss is nan")

    monkeypatch.setattr(protocol, "train_network", diverge)
    assert run("dead", "--part", "ukp") == 7
    assert "ukp, mse, seed 0, fold 1: the loss is nan" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("none", "--part", "ukp_16_fold")
    assert "invalid choice: 'ukp_16_fold'" in capsys.readouterr().err
    assert run("none", "--recipe", "sbert") == 2
    assert "the recipe of sbert has no [quality] table; choose a tfr_bert recipe" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "quality").mkdir()
    assert run("empty") == 3
    assert "prepare quality" in capsys.readouterr().err
    (tmp_path / "mine.toml").write_text(RECIPE.replace('"ibm"', '"webis"'))  # for testing only
    assert run("none") == 2
    error = capsys.readouterr().err
    assert "webis" in error
    assert "quality.datasets" in error
