"""End-to-end tests of enrichments: resumption, tuning on enriched documents, and a study of several enrichments."""

from __future__ import annotations

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
from training.evaluation.significance import apply_holm_correction
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
def checkpoints(tmp_path: Path) -> Path:
    write_deepct(tmp_path / "checkpoints", "one")
    write_targer(tmp_path / "checkpoints", "two")
    return tmp_path / "checkpoints"


@pytest.fixture
def flags(corpus_with_topics: Path, tmp_path: Path, qrels_files: list[Path], checkpoints: Path) -> list[str]:
    """Write two grids, and return the flags that all commands share."""
    (tmp_path / "mine.toml").write_text(GRID)
    (tmp_path / "other.toml").write_text(OTHER_GRID)
    qrels = [flag for file in qrels_files for flag in ("--qrels", str(file))]
    paths = ["-i", str(corpus_with_topics), "--checkpoints", str(checkpoints), "--work-dir", str(tmp_path / "work")]
    return [*qrels, *paths, "--device", "cpu"]


@pytest.fixture
def compare(flags: list[str], tmp_path: Path) -> list[str]:
    """Return the command of the study that compares two enrichments on both grids."""
    grids = ["--grid", str(tmp_path / "mine.toml"), "--grid", str(tmp_path / "other.toml")]
    return ["study", "enrichments", "one", "two", *grids, "-o", str(tmp_path / "table.csv"), *flags]


@pytest.mark.slow
def test_tune_on_enriched_documents(flags: list[str], checkpoints: Path, tmp_path: Path, assert_fails: AssertFails) -> None:
    def tune(enrichment: str) -> list[str]:
        (tmp_path / "mine.toml").write_text(f"{enrichment}\n{GRID}")
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return ["tune", str(tmp_path / "mine.toml"), "-o", str(tmp_path / "out"), *flags]

    tables, fingerprint = set(), load_enricher(checkpoints / "one").fingerprint
    write_deepct(checkpoints, "two", 1)
    for enrichment in ("", 'enrichment = "two"', 'enrichment = "one"'):
        assert main(tune(enrichment)) == 0
        tables.add((tmp_path / "out" / "grid.csv").read_text())
    assert read_config(tmp_path / "out", LexicalParameters).enrichment == "one"
    assert read_json(tmp_path / "out" / PROVENANCE)["enrichment"] == {"one": fingerprint}
    assert "; terms of one." in (tmp_path / "out" / "README.md").read_text()
    write_deepct(checkpoints, "one", 5)  # retrained, so cached results are not used
    assert main(tune('enrichment = "one"')) == 0
    assert len(tables | {(tmp_path / "out" / "grid.csv").read_text()}) == 4
    assert_fails(4, "checkpoint not found; available: one, two", *tune('enrichment = "three"'))
    assert_fails(2, "mine.toml: not a valid grid (Expected `str | null`, got `int`", *tune("enrichment = 4"))


def test_study_tabulates_cross_validated_means(compare: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes, values_by_name, evaluate_grid = {}, {}, grid_search.evaluate_grid

    def record(name: str, grid: grid_search.Grid, *args: Any) -> np.ndarray:
        indexes[name] = {(point.index.fields, point.index.stemmer, point.enrichment) for point in grid.points}
        values_by_name[name] = evaluate_grid(name, grid, *args)
        return values_by_name[name]

    monkeypatch.setattr(grid_search, "evaluate_grid", record)
    assert main(compare) == 0
    assert {name: index for name, index in indexes.items() if name.endswith("mine")} == {
        "none-mine": {("conclusion premise", "porter", None)}, "none (premise)-mine": {("premise", "porter", None)},
        "one-mine": {("premise", "porter", "one")}, "two-mine": {("conclusion premise", "porter", "two")},
    }  # fmt: skip
    table = pd.read_csv(tmp_path / "table.csv")
    means = table.set_index(["enrichment", "retrieval_model", "measure"])["mean"]
    models = [(enrichment, model) for enrichment in ("none", "none (premise)", "one", "two") for model in ("mine", "other")]
    assert means.index.tolist() == [(*model, measure) for model in models for measure in enrichments.MEASURES]
    expected = cross_validate(values_by_name["one-mine"])
    assert means["one", "mine"].to_dict() == pytest.approx({name: expected[name] for name in enrichments.MEASURES}, abs=1e-6)
    plain, enriched = table[table["enrichment"] == "none"], table[table["enrichment"] != "none"]
    assert plain[["difference", "p_t", "p_randomisation_holm"]].isna().all(axis=None)
    merged = enriched.merge(plain, on=["retrieval_model", "measure"], suffixes=("", "_plain"))
    assert merged["difference"].tolist() == pytest.approx((merged["mean"] - merged["mean_plain"]).tolist(), abs=2e-6)
    controls = enriched[enriched["enrichment"] == "none (premise)"]
    assert controls[["p_t_holm", "p_randomisation_holm"]].isna().all(axis=None)
    for _, group in enriched.drop(controls.index).groupby("measure"):  # two enrichments and two models
        assert group["p_t_holm"].to_numpy() == pytest.approx(apply_holm_correction(group["p_t"].to_numpy()), abs=5e-6)


def cross_validate(values: np.ndarray) -> dict[str, float]:
    """Average the measures over topics; topic 1 is ranked at the best grid point of topics 2 and 3, and vice versa."""
    selection = [grid_search.STORED_MEASURES.index(measure) for measure in ("nDCG@5 (Touché)", "MAP all")]
    first, second = (
        max(range(3), key=lambda point: tuple(values[point][rows][:, selection].mean(axis=0).round(9)))
        for rows in ([1, 2], [0])
    )
    return dict(zip(grid_search.STORED_MEASURES, (values[first][0] + values[second][1:].sum(axis=0)) / 3, strict=True))


def test_study_refuses_varying_indexes_and_damage(
    compare: list[str], checkpoints: Path, tmp_path: Path, assert_fails: AssertFails
) -> None:
    (tmp_path / "other.toml").write_text(GRID.replace('"premise"', '["premise", "conclusion premise"]'))
    assert_fails(2, "the grid varies index settings, which must be identical for all enrichments", *compare)
    (checkpoints / "two" / "probe.json").write_text("{}")
    assert_fails(4, "probe.json: damaged", *compare)  # before any document is enriched
