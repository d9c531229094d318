"""The whole table on small data: by command, its rows of other parts; and what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace

from submission.errors import TrainingError
from tests.conftest import count_colours
from tests.unit.training.data.quality_files import write_quality
from training.__main__ import main
from training.fitting.listwise_losses import LOSSES
from training.fitting.recipe import Recipe
from training.studies.argument_quality import protocol
from training.studies.argument_quality.metrics import MEASURES
from training.studies.argument_quality.published import PUBLISHED
from training.studies.argument_quality.study import _shared_recipe_settings
from training.studies.argument_quality.table import _measure_rows
from training.tasks.quality import QualitySpec
from training.tuning.quality_grid import MEASURES as REORDERED

RECIPE = """ranker = "tfr_bert"
[encoder]
name = "tiny"
frozen = 2
learning_rate = 0.0003
[lengths]
query = 20
premise = 40
[training]
epochs = 1
validations = 1
learning_rate = 0.001
global_batch_size = 6
micro_batch_size = 6
[lists]
data = ["ukp", "ibm"]
loss = "hinge"
"""
PARTS = ["ukp", "ukp+ibm_to_webis"]
BASELINES = ["length", "untrained"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("quality")
    assert main(["prepare", "lists", "-i", str(write_quality(directory / "data", 8)), "--work", str(directory / "work")]) == 0
    return directory / "work"


@pytest.fixture
def run(prepared_work_dir: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command with a small encoder, on tables that are made already."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODERS", encoder.parent)
    (tmp_path / "mine.toml").write_text(RECIPE)

    def evaluate(name: str, *flags: str) -> int:
        work = tmp_path / name
        work.mkdir(exist_ok=True)
        if not (work / "quality").exists():
            (work / "quality").symlink_to(prepared_work_dir / "quality")
        parts = [flag for part in PARTS for flag in ("--part", part)]
        places = ["--work", str(work), "--recipe", str(tmp_path / "mine.toml"), "-o", str(tmp_path / f"{name}.csv")]
        return main(
            ["study", "argument-quality", *places, "--device", "cpu", "--processes", "1", *(flags or [*parts, "--seeds", "1"])]
        )

    return evaluate


def read(file: Path) -> pd.DataFrame:
    figures = ("mean", "low", "high", "sd", "seeds", "paper")
    return pd.read_csv(file, keep_default_na=False, na_values=dict.fromkeys(figures, ""))


def test_the_table_and_the_rows_of_other_parts(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("whole") == 0
    assert "ensemble, standardised" in capfd.readouterr().out
    assert count_colours((tmp_path / "whole.png").read_bytes()) > 20
    table = read(tmp_path / "whole.csv")
    found = table.set_index(["setting", "target", "network", "measure"]).sort_index()
    means = found["mean"]

    ukp = found.loc["ukp", ""]
    assert list(dict.fromkeys(table.loc[table["setting"] == "ukp", "network"])) == [
        *BASELINES, *LOSSES, "ensemble", "ensemble, standardised", "BERT, pointwise", "Potash et al. 2019",
    ]  # fmt: skip
    assert means["ukp", "", "length", "Spearman"] == pytest.approx(1, abs=1e-3)  # in these data length is quality
    for loss in LOSSES:
        own = ukp.loc[loss]
        assert {*own.index} == {*MEASURES, "Spearman (dev)"}
        assert own.loc["Spearman", "paper"] == PUBLISHED["ukp"][loss].spearman
        assert (own["n_seeds"] == 1).all()
        assert own.loc["Spearman", "low"] < own.loc["Spearman", "mean"] < own.loc["Spearman", "high"]
        assert own["sd"].isna().all()
    assert np.isnan(means["ukp", "", "Potash et al. 2019", "Spearman"])
    assert ukp["mean"].loc[[*LOSSES], "Pearson"].nunique() == len(LOSSES)

    webis = found.loc["ukp+ibm_to_webis"]
    assert {*webis.index.unique("target")} == {"combined", "rhetorical", "logical", "dialectical", ""}
    assert {*webis.loc["combined"].index.unique("network")} == {*BASELINES, "hinge", "hinge (argument only)"}
    dialectical, combined = (webis.loc[(target, "hinge", "Spearman"), "mean"] for target in ("dialectical", "combined"))
    assert dialectical == pytest.approx(-combined)  # it is the other way round in these data

    lists = means["webis_reranking"]
    assert lists["", "original order", REORDERED[0]] < 1
    for network in (*BASELINES, "hinge", "hinge (argument only)"):
        for target in ("quality only", "relevance and quality"):
            own = lists[target, network]
            assert {*own.index} == {*REORDERED, *(f"Δ {name}" for name in REORDERED)}
            for name in REORDERED:
                assert own[f"Δ {name}"] == pytest.approx(own[name] - lists["", "original order", name], abs=2e-4)

    monkeypatch.setattr(protocol, "trained", None)  # from here on everything is kept
    before = (tmp_path / "whole.csv").read_bytes()
    lines = before.splitlines(keepends=True)
    (tmp_path / "whole.csv").write_bytes(b"".join(line for line in lines if line.startswith((b"part,", b"ukp,"))))
    assert run("whole", "--part", "ukp+ibm_to_webis", "--seeds", "1") == 0
    assert (tmp_path / "whole.csv").read_bytes() == before  # of the other part the rows that were there
    table.assign(mean=-9).to_csv(tmp_path / "whole.csv", index=False)
    assert run("whole", "--part", "ukp+ibm_to_webis", "--seeds", "1") == 0
    again = read(tmp_path / "whole.csv")
    assert {*again.loc[again["mean"] == -9, "setting"]} == {"ukp"}  # all others are new, those of lists too


def test_means_over_seeds_intervals_over_lists() -> None:
    seeds = [pd.DataFrame({"Spearman": values}) for values in ([0.2, 0.4, 0.6], [0.4, 0.6, 0.8])]
    [row] = _measure_rows(("ukp", "ukp", "", "mse"), seeds, {"Spearman": 0.68})
    assert row["mean"] == pytest.approx(0.5)
    assert row["sd"] == pytest.approx(0.2 / 2**0.5)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((0.3, 0.7))  # of three lists one may be drawn thrice
    assert (row["measure"], row["n_seeds"], row["published"]) == ("Spearman", 2, 0.68)


def test_what_is_kept_does_not_depend_on_the_recipe_s_loss() -> None:
    lists = QualitySpec(("ukp",), loss="mse")
    one, other = (
        Recipe(ranker="tfr_bert", task=lists),
        Recipe(ranker="tfr_bert", seed=3, network={"topic": False}, task=replace(lists, loss="hinge")),
    )
    assert _shared_recipe_settings(one) == _shared_recipe_settings(other)
    assert _shared_recipe_settings(one) != _shared_recipe_settings(replace(one, task=replace(lists, labels="topic")))
    assert _shared_recipe_settings(one) != _shared_recipe_settings(replace(one, encoder=replace(one.encoder, frozen=3)))


def test_mistakes(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def dead(*arguments: object) -> None:
        raise TrainingError("the loss is nan")

    monkeypatch.setattr(protocol, "trained", dead)
    assert run("dead", "--part", "ukp") == 7
    assert "ukp, mse, seed 0, fold 1: the loss is nan" in capsys.readouterr().err
    assert run("none", "--part", "ukp_16_fold") == 2
    assert "unknown setting 'ukp_16_fold'; did you mean 'ukp_16_folds'?" in capsys.readouterr().err
    assert run("none", "--recipe", "sbert") == 2
    assert "recipe of sbert: no [lists] table; choose a tfr_bert recipe" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "quality").mkdir()
    assert run("empty") == 3
    assert "prepare lists" in capsys.readouterr().err
    (tmp_path / "mine.toml").write_text(RECIPE.replace('"ibm"', '"webis"'))  # from which nothing learns
    assert run("none") == 2
    error = capsys.readouterr().err
    assert "webis" in error
    assert "lists.data" in error
