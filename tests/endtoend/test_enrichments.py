"""End-to-end tests of enrichments: resumption, tuning on enriched documents, and a study of several enrichments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from submission.inference.enricher_checkpoint import load_enricher
from submission.retrieval.lexical import LexicalParameters
from submission.storage.checkpoint_directory import PROVENANCE, read_config, read_json
from tests.conftest import write_deepct, write_targer
from tests.endtoend.conftest import AssertFails
from training.__main__ import main
from training.evaluation.significance import holm_correction
from training.studies import enrichments
from training.tuning import grid as grid_search

GRID = """
[index]
fields = "premise"
[model]
name = "dirichlet"
mu = [1, 200, 5000]
"""
OTHER_GRID = """
[index]
[model]
name = "bm25"
b = [0.0, 0.75]
[expansion]
most_df = 1.0
terms = 2
"""


@pytest.fixture
def grids(tmp_path: Path) -> list[Path]:
    files = [tmp_path / "mine.toml", tmp_path / "other.toml"]
    for file, text in zip(files, (GRID, OTHER_GRID), strict=True):
        file.write_text(text)
    return files


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    for seed, name in enumerate(("one", "two")):
        write_deepct(tmp_path / "checkpoints", name, seed)
    return tmp_path / "checkpoints"


@pytest.fixture
def compare(
    corpus_with_topics: Path, tmp_path: Path, qrels_files: list[Path], grids: list[Path], checkpoints: Path
) -> list[str]:
    """Return the command that compares enrichments in a study."""
    qrels = [flag for file in qrels_files for flag in ("--qrels", str(file))]
    models = [flag for file in grids for flag in ("--grid", str(file))]
    paths = ["-i", str(corpus_with_topics), "-o", str(tmp_path / "table.csv"), "--work-dir", str(tmp_path / "study")]
    flags = ["--checkpoints", str(checkpoints), "--device", "cpu"]
    return ["study", "enrichments", "one", "two", *qrels, *models, *paths, *flags]


@pytest.mark.slow
def test_tune_on_enriched_documents(
    corpus_with_topics: Path, tmp_path: Path, qrels_files: list[Path], checkpoints: Path, assert_fails: AssertFails
) -> None:
    qrels = [flag for file in qrels_files for flag in ("--qrels", str(file))]
    paths = ["-i", str(corpus_with_topics), "--work-dir", str(tmp_path / "tuning"), "--checkpoints", str(checkpoints)]

    def build_command(name: str, enrichment: str) -> list[str]:
        (tmp_path / f"{name}.toml").write_text(f"{enrichment}\n{GRID}")
        return ["tune", str(tmp_path / f"{name}.toml"), *qrels, *paths, "--device", "cpu", "-o", str(tmp_path / name)]

    def tune(name: str, enrichment: str) -> str:
        """Tune, and return the table of the grid."""
        assert main(build_command(name, enrichment)) == 0
        return (tmp_path / name / "grid.csv").read_text()

    tables = {tune("plain", ""), tune("one", 'enrichment = "one"'), tune("two", 'enrichment = "two"')}
    assert len(tables) == 3
    assert read_config(tmp_path / "plain", LexicalParameters).enrichment is None
    assert read_config(tmp_path / "one", LexicalParameters).enrichment == "one"
    fingerprint = load_enricher(checkpoints / "one").fingerprint
    assert read_json(tmp_path / "one" / PROVENANCE)["enrichment"] == {"one": fingerprint}
    assert "; terms of one." in (tmp_path / "one" / "README.md").read_text()
    write_deepct(checkpoints, "one", 5)  # retrained, so cached results are not used
    assert tune("one", 'enrichment = "one"') not in tables
    assert_fails(4, "checkpoint not found; available: one, two", *build_command("three", 'enrichment = "three"'))
    assert_fails(2, "four.toml: not a valid grid (Expected `str | null`, got `int`", *build_command("four", "enrichment = 4"))


def test_deepct_grids_match_the_plain_grids() -> None:
    for name, points in (("deepct_dirichlet", 40), ("deepct_dirichlet_rm3", 140), ("deepct_bm25_rm3", 280)):
        grid, plain = grid_search.load_grid(name), grid_search.load_grid(name.removeprefix("deepct_"))
        assert (len(grid.points), grid.axes) == (points, plain.axes)
        settings = {(point.enrichment, point.index.fields, point.index.stemmer) for point in grid.points}
        assert settings == {("deepct", "premise", "porter")}
    assert {point.enrichment for point in grid_search.load_grid("dirichlet").points} == {None}


def test_study_tabulates_cross_validated_means(
    compare: list[str], checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(checkpoints / "two")
    write_targer(checkpoints, "two")
    indexes, values_by_name, evaluate_grid = {}, {}, grid_search.evaluate_grid

    def record(name: str, grid: grid_search.Grid, *args: Any) -> np.ndarray:
        indexes[name] = {(point.index.fields, point.index.stemmer, point.enrichment) for point in grid.points}
        values_by_name[name] = evaluate_grid(name, grid, *args)
        return values_by_name[name]

    monkeypatch.setattr(grid_search, "evaluate_grid", record)
    assert main(compare) == 0
    for name, fields, enrichment in (
        ("none-mine", "conclusion premise", None), ("none (premise)-mine", "premise", None),
        ("one-mine", "premise", "one"), ("two-mine", "conclusion premise", "two"),
    ):  # fmt: skip
        assert indexes[name] == {(fields, "porter", enrichment)}
    table = pd.read_csv(tmp_path / "table.csv")
    means = table.set_index(["enrichment", "retrieval_model", "measure"])["mean"]
    models = [(enrichment, model) for enrichment in ("none", "none (premise)", "one", "two") for model in ("mine", "other")]
    assert means.index.tolist() == [(*model, measure) for model in models for measure in enrichments.MEASURES]
    # The folds are topic 1, and topics 2 and 3; each fold is evaluated at the best grid point of the other.
    values = values_by_name["one-mine"]
    selection = [grid_search.STORED_MEASURES.index(measure) for measure in ("nDCG@5 (Touché)", "MAP all")]
    first, second = (
        max(range(3), key=lambda point: tuple(values[point][rows][:, selection].mean(axis=0).round(9)))
        for rows in ([1, 2], [0])
    )
    expected = dict(zip(grid_search.STORED_MEASURES, (values[first][0] + values[second][1:].sum(axis=0)) / 3, strict=True))
    assert means["one", "mine"].to_dict() == pytest.approx({name: expected[name] for name in enrichments.MEASURES}, abs=1e-6)
    assert_enrichments_are_compared(table)


def assert_enrichments_are_compared(table: pd.DataFrame) -> None:
    """Assert that all rows but those without enrichment have differences, intervals and p-values corrected by Holm's method."""
    plain, enriched = table[table["enrichment"] == "none"], table[table["enrichment"] != "none"]
    assert plain[["difference", "p_t", "p_randomisation_holm"]].isna().all(axis=None)
    merged = enriched.merge(plain, on=["retrieval_model", "measure"], suffixes=("", "_plain"))
    assert merged["difference"].tolist() == pytest.approx((merged["mean"] - merged["mean_plain"]).tolist(), abs=2e-6)
    assert enriched["difference"].nunique() > 5
    is_within = (enriched["difference_low"] <= enriched["difference"]) & (enriched["difference"] <= enriched["difference_high"])
    assert (is_within | (enriched["difference"] == 0)).all()
    assert ((enriched["ci_low"] <= enriched["mean"]) & (enriched["mean"] <= enriched["ci_high"])).all()
    is_control = enriched["enrichment"] == "none (premise)"
    assert enriched.loc[is_control, ["p_t_holm", "p_randomisation_holm"]].isna().all(axis=None)
    for test in ("p_t", "p_randomisation"):
        for _, group in enriched[~is_control].groupby("measure"):  # two enrichments and two models
            assert group[f"{test}_holm"].to_numpy() == pytest.approx(holm_correction(group[test].to_numpy()), abs=5e-6)


def test_study_rejects_unsuitable_grids_and_checkpoints(
    compare: list[str], grids: list[Path], checkpoints: Path, assert_fails: AssertFails
) -> None:
    grids[1].write_text(GRID.replace('"premise"', '["premise", "conclusion premise"]'))
    assert_fails(2, "the grid varies index settings, which must be identical for all enrichments", *compare)
    probe = checkpoints / "two" / "probe.json"
    probe.write_text(json.dumps(json.loads(probe.read_text())))  # other bytes
    assert_fails(4, "probe.json: damaged", *compare)  # before any document is enriched
