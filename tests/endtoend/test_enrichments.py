"""End-to-end tests of enrichments: resumption, tuning on enriched documents, and a study of several enrichments."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from submission.data.runs import read_run
from submission.inference import enrichment as enrichment_module
from submission.inference.enricher_checkpoint import load_enricher
from submission.inference.enrichment import WordFrequencies
from submission.retrieval.lexical import LexicalParameters
from submission.storage.checkpoint_directory import PROVENANCE, read_config, read_json
from tests.conftest import read_files, write_deepct, write_targer
from tests.endtoend.conftest import AssertFails, Log, RankAll
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


@pytest.mark.parametrize("name", ["deepct", "targer"])
def test_interrupted_enrichment_resumes_to_the_same_bytes(
    name: str, rank_all: RankAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Log
) -> None:
    def rank(output: str) -> int:
        return rank_all(output, "--cache-dir", str(tmp_path / f"{output}-work"), "--system", f"{name}_dirichlet")

    monkeypatch.setattr(enrichment_module, "SHARD_SIZE", 64)
    with caplog.at_level(logging.INFO):
        assert rank("complete") == 0
    assert f"{name}: 575 documents to enrich, about" in caplog.text
    enrich_texts, batch_sizes = enrichment_module.enrich_texts, []

    def interrupt(texts: Sequence[str], *args: Any) -> list[WordFrequencies]:
        if len(texts) > enrichment_module.MIN_SAMPLE_SIZE:
            batch_sizes.append(len(texts))
            if len(batch_sizes) in (3, 5, 8):
                raise KeyboardInterrupt
        return enrich_texts(texts, *args)

    monkeypatch.setattr(enrichment_module, "enrich_texts", interrupt)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            rank("interrupted")
    assert rank("interrupted") == 0
    assert len(batch_sizes) == 3 + 9
    assert (tmp_path / "interrupted" / "run.txt").read_bytes() == (tmp_path / "complete" / "run.txt").read_bytes()
    assert read_files(tmp_path / "interrupted-work") == read_files(tmp_path / "complete-work")
    assert len(read_run(tmp_path / "complete" / "run.txt")) > 20


def test_tune_on_enriched_documents(
    corpus_with_topics: Path, tmp_path: Path, qrels_files: list[Path], checkpoints: Path, assert_fails: AssertFails
) -> None:
    qrels = [flag for file in qrels_files for flag in ("--qrels", str(file))]
    paths = ["-i", str(corpus_with_topics), "--work-dir", str(tmp_path / "tuning"), "--checkpoints", str(checkpoints)]
    tables = {}

    def tune(name: str, enrichment: str) -> list[str]:
        """Return the command that tunes on the documents of an enrichment."""
        (tmp_path / f"{name}.toml").write_text(f"{enrichment}\n{GRID}")
        return ["tune", str(tmp_path / f"{name}.toml"), *qrels, *paths, "--device", "cpu", "-o", str(tmp_path / name)]

    for name in ("plain", "one", "two"):
        assert main(tune(name, "" if name == "plain" else f'enrichment = "{name}"')) == 0
        tables[name] = (tmp_path / name / "grid.csv").read_text()
        enrichment = read_config(tmp_path / name, LexicalParameters).enrichment
        provenance = read_json(tmp_path / name / PROVENANCE)
        assert enrichment == (None if name == "plain" else name)
        if enrichment:
            assert provenance["enrichment"] == {name: load_enricher(checkpoints / name).fingerprint}
            assert f"; terms of {name}." in (tmp_path / name / "README.md").read_text()
    assert len(set(tables.values())) == 3
    write_deepct(checkpoints, "one", 5)  # retrained, so cached results are not used
    assert main(tune("one", 'enrichment = "one"')) == 0
    assert (tmp_path / "one" / "grid.csv").read_text() not in tables.values()
    assert_fails(4, "checkpoint not found; available: one, two", *tune("three", 'enrichment = "three"'))
    assert_fails(2, "four.toml: not a valid grid (Expected `str | null`, got `int`", *tune("four", "enrichment = 4"))


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
    both_fields = "conclusion premise"
    assert indexes["none-mine"] == {(both_fields, "porter", None)}
    assert indexes["none (premise)-mine"] == {("premise", "porter", None)}
    assert indexes["one-mine"] == {("premise", "porter", "one")}
    assert indexes["two-mine"] == {(both_fields, "porter", "two")}
    table = pd.read_csv(tmp_path / "table.csv")
    names = [(enrichment, model) for enrichment in ("none", "none (premise)", "one", "two") for model in ("mine", "other")]
    assert list(dict.fromkeys(zip(table["enrichment"], table["retrieval_model"], strict=True))) == names
    assert len(table) == 8 * len(enrichments.MEASURES)
    plain, enriched = table[table["enrichment"] == "none"], table[table["enrichment"] != "none"]
    assert plain[["difference", "p_t", "p_randomisation_holm"]].isna().all(axis=None)
    unenriched_means = plain.set_index(["retrieval_model", "measure"])["mean"]
    for row in enriched.itertuples():
        assert row.difference == pytest.approx(row.mean - unenriched_means[row.retrieval_model, row.measure], abs=2e-6)
        assert row.difference_low <= row.difference <= row.difference_high or (
            row.difference == 0 and np.isnan([row.difference_low, row.difference_high]).all()
        )
        assert row.ci_low <= row.mean <= row.ci_high
    is_control = enriched["enrichment"] == "none (premise)"
    assert enriched.loc[is_control, ["p_t_holm", "p_randomisation_holm"]].isna().all(axis=None)
    for test in ("p_t", "p_randomisation"):
        for _, group in enriched[~is_control].groupby("measure"):  # two enrichments and two models
            assert len(group) == 4
            assert group[f"{test}_holm"].to_numpy() == pytest.approx(holm_correction(group[test].to_numpy()), abs=5e-6)
    assert enriched["difference"].nunique() > 5
    means = table.set_index(["enrichment", "retrieval_model", "measure"])["mean"]
    values = values_by_name["one-mine"]
    assert values.shape == (3, 3, len(grid_search.STORED_MEASURES))
    selection_columns = [grid_search.STORED_MEASURES.index(measure) for measure in ("nDCG@5 (Touché)", "MAP all")]
    # The folds are topic 1, and topics 2 and 3; each fold is evaluated at the best grid point of the other.
    first, second = (
        max(range(3), key=lambda point: tuple(values[point][rows][:, selection_columns].mean(axis=0).round(9)))
        for rows in ([1, 2], [0])
    )
    expected = (values[first][0] + values[second][1] + values[second][2]) / 3
    for column, measure in enumerate(grid_search.STORED_MEASURES):
        if measure in enrichments.MEASURES:
            assert means["one", "mine", measure] == pytest.approx(expected[column], abs=1e-6)


def test_holm_correction_excludes_control_rows() -> None:
    rows = [("none", np.nan), ("none (premise)", 0.01), ("one", 0.02), ("two", 0.03)]
    table = pd.DataFrame(rows, columns=["enrichment", "p_t"]).assign(measure="nDCG@5 all")
    corrected = enrichments.add_holm_correction(table.assign(p_randomisation=table["p_t"] / 2), ["one", "two"])
    assert corrected["p_t_holm"].tolist() == pytest.approx([np.nan, np.nan, 0.04, 0.04], nan_ok=True)
    assert corrected["p_randomisation_holm"].tolist() == pytest.approx([np.nan, np.nan, 0.02, 0.02], nan_ok=True)


def test_study_rejects_unsuitable_grids_and_checkpoints(
    compare: list[str], grids: list[Path], checkpoints: Path, assert_fails: AssertFails
) -> None:
    grids[1].write_text(GRID.replace('"premise"', '["premise", "conclusion premise"]'))
    assert_fails(2, "the grid varies index settings, which must be identical for all enrichments", *compare)
    probe = checkpoints / "two" / "probe.json"
    probe.write_text(json.dumps(json.loads(probe.read_text())))  # other bytes
    assert_fails(4, "probe.json: damaged", *compare)  # before any document is enriched
