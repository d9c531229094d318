"""Enrichments: made again where a run was killed; in tuning: a grid over their words, the table of enrichers × models."""

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
from submission.retrieval.parameters import LexicalParameters
from submission.storage.checkpoint_directory import PROVENANCE, read_config, read_json
from tests.conftest import file_contents, write_deepct, write_targer
from tests.endtoend.conftest import Log, RankAll, Refused
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
OTHER = """
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
    for file, text in zip(files, (GRID, OTHER), strict=True):
        file.write_text(text)
    return files


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    for seed, name in enumerate(("one", "two")):
        write_deepct(tmp_path / "checkpoints", name, seed)
    return tmp_path / "checkpoints"


@pytest.fixture
def compare(corpus_with_topics: Path, tmp_path: Path, judged: list[Path], grids: list[Path], checkpoints: Path) -> list[str]:
    """The command that makes the table."""
    qrels = [flag for file in judged for flag in ("--qrels", str(file))]
    models = [flag for file in grids for flag in ("--grid", str(file))]
    places = [
        "-i",
        str(corpus_with_topics),
        "-o",
        str(tmp_path / "table.csv"),
        "--work",
        str(tmp_path / "comparing"),
        "--device",
        "cpu",
    ]
    return ["study", "enrichments", "one", "two", *qrels, *models, *places, "--checkpoints", str(checkpoints)]


@pytest.mark.parametrize("name", ["deepct", "targer"])
def test_killed_three_times_while_enriching_a_run_has_the_same_bytes(
    name: str, rank_all: RankAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Log
) -> None:
    def rank(output: str) -> int:
        return rank_all(output, "--work", str(tmp_path / f"{output}-work"), "--system", f"{name}_dirichlet")

    monkeypatch.setattr(enrichment_module, "TOGETHER", 64)
    with caplog.at_level(logging.INFO):
        assert rank("whole") == 0
    assert f"{name}: 575 documents to enrich, about" in caplog.text
    each, made = enrichment_module.enrich_texts, []

    def stops(texts: Sequence[str], *rest: Any) -> list[WordFrequencies]:
        if len(texts) > enrichment_module.MIN_SAMPLE_SIZE:
            made.append(len(texts))
            if len(made) in (3, 5, 8):
                raise KeyboardInterrupt
        return each(texts, *rest)

    monkeypatch.setattr(enrichment_module, "enrich_texts", stops)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            rank("killed")
    assert rank("killed") == 0
    assert len(made) == 3 + 9
    assert (tmp_path / "killed" / "run.txt").read_bytes() == (tmp_path / "whole" / "run.txt").read_bytes()
    assert file_contents(tmp_path / "killed-work") == file_contents(tmp_path / "whole-work")
    assert len(read_run(tmp_path / "whole" / "run.txt")) > 20


def test_a_grid_over_the_words_of_an_enrichment(
    corpus_with_topics: Path, tmp_path: Path, judged: list[Path], checkpoints: Path, refused: Refused
) -> None:
    qrels = [flag for file in judged for flag in ("--qrels", str(file))]
    places = [
        "-i",
        str(corpus_with_topics),
        "--work",
        str(tmp_path / "tuning"),
        "--checkpoints",
        str(checkpoints),
        "--device",
        "cpu",
    ]
    tables = {}

    def tuned(name: str, enrichment: str) -> list[str]:
        """The command that tunes over an enrichment's words."""
        (tmp_path / f"{name}.toml").write_text(f"{enrichment}\n{GRID}")
        return ["tune", str(tmp_path / f"{name}.toml"), *qrels, *places, "-o", str(tmp_path / name)]

    for name in ("plain", "one", "two"):
        assert main(tuned(name, "" if name == "plain" else f'enrichment = "{name}"')) == 0
        tables[name] = (tmp_path / name / "grid.csv").read_text()
        enrichment, provenance = (
            read_config(tmp_path / name, LexicalParameters).enrichment,
            read_json(tmp_path / name / PROVENANCE),
        )
        assert enrichment == (None if name == "plain" else name)
        if enrichment:
            assert provenance["enrichment"] == {name: load_enricher(checkpoints / name).fingerprint}
            assert f"; terms of {name}." in (tmp_path / name / "README.md").read_text()
    assert len(set(tables.values())) == 3
    write_deepct(checkpoints, "one", 5)  # trained anew: what was kept is not used
    assert main(tuned("one", 'enrichment = "one"')) == 0
    assert (tmp_path / "one" / "grid.csv").read_text() not in tables.values()
    refused(4, "checkpoint not found; available: one, two", *tuned("three", 'enrichment = "three"'))
    refused(2, "four.toml: not a valid grid (Expected `str | null`, got `int`", *tuned("four", "enrichment = 4"))


def test_the_grids_of_the_systems() -> None:
    for name, points in (("deepct_dirichlet", 40), ("deepct_dirichlet_rm3", 140), ("deepct_bm25_rm3", 280)):
        grid, plain = grid_search.load_grid(name), grid_search.load_grid(name.removeprefix("deepct_"))
        assert (len(grid.points), grid.axes) == (points, plain.axes)
        assert {(point.enrichment, point.index.fields, point.index.stemmer) for point in grid.points} == {
            ("deepct", "premise", "porter")
        }
    assert {point.enrichment for point in grid_search.load_grid("dirichlet").points} == {None}


def test_a_table_of_enrichments_and_models_is_what_tuning_says_of_other_folds(
    compare: list[str], checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(checkpoints / "two")
    write_targer(checkpoints, "two")
    asked, measured, values_of = {}, {}, enrichments.evaluate_grid

    def told(name: str, grid: grid_search.Grid, *rest: Any) -> np.ndarray:
        asked[name] = {(point.index.fields, point.index.stemmer, point.enrichment) for point in grid.points}
        measured[name] = values_of(name, grid, *rest)
        return measured[name]

    monkeypatch.setattr(enrichments, "evaluate_grid", told)
    assert main(compare) == 0
    whole = "conclusion premise"
    assert asked["none-mine"] == {(whole, "porter", None)}
    assert asked["none (premise)-mine"] == {("premise", "porter", None)}
    assert asked["one-mine"] == {("premise", "porter", "one")}
    assert asked["two-mine"] == {(whole, "porter", "two")}
    table = pd.read_csv(tmp_path / "table.csv")
    names = [(enrichment, model) for enrichment in ("none", "none (premise)", "one", "two") for model in ("mine", "other")]
    assert list(dict.fromkeys(zip(table["enrichment"], table["retrieval_model"], strict=True))) == names
    assert len(table) == 8 * len(enrichments.MEASURES)
    plain, rest = table[table["enrichment"] == "none"], table[table["enrichment"] != "none"]
    assert plain[["difference", "p_t", "p_randomisation_holm"]].isna().all(axis=None)
    of_plain = plain.set_index(["retrieval_model", "measure"])["mean"]
    for row in rest.itertuples():
        assert row.difference == pytest.approx(row.mean - of_plain[row.retrieval_model, row.measure], abs=2e-6)
        assert row.difference_low <= row.difference <= row.difference_high or (
            row.difference == 0 and np.isnan([row.difference_low, row.difference_high]).all()
        )
        assert row.ci_low <= row.mean <= row.ci_high
    part = rest["enrichment"] == "none (premise)"
    assert rest.loc[part, ["p_t_holm", "p_randomisation_holm"]].isna().all(axis=None)
    for test in ("p_t", "p_randomisation"):
        for _, group in rest[~part].groupby("measure"):  # of two enrichments and two models together
            assert len(group) == 4
            assert group[f"{test}_holm"].to_numpy() == pytest.approx(holm_correction(group[test].to_numpy()), abs=5e-6)
    assert rest["difference"].nunique() > 5
    found = table.set_index(["enrichment", "retrieval_model", "measure"])["mean"]
    values = measured["one-mine"]
    assert values.shape == (3, 3, len(grid_search.STORED_MEASURES))
    decisive = [grid_search.STORED_MEASURES.index(measure) for measure in ("nDCG@5 (Touché)", "MAP all")]
    # Topic 1 is a fold, 2 and 3 are the other: each is measured at the point that is best on the other.
    first, second = (
        max(range(3), key=lambda point: tuple(values[point][rows][:, decisive].mean(axis=0).round(9))) for rows in ([1, 2], [0])
    )
    expected = (values[first][0] + values[second][1] + values[second][2]) / 3
    for place, measure in enumerate(grid_search.STORED_MEASURES):
        if measure in enrichments.MEASURES:
            assert found["one", "mine", measure] == pytest.approx(expected[place], abs=1e-6)


def test_parts_of_texts_as_they_are_count_in_no_correction() -> None:
    rows = [("none", np.nan), ("none (premise)", 0.01), ("one", 0.02), ("two", 0.03)]
    table = pd.DataFrame(rows, columns=["enrichment", "p_t"]).assign(measure="nDCG@5 all")
    found = enrichments.add_holm_correction(table.assign(p_randomisation=table["p_t"] / 2), ["one", "two"])
    assert found["p_t_holm"].tolist() == pytest.approx([np.nan, np.nan, 0.04, 0.04], nan_ok=True)
    assert found["p_randomisation_holm"].tolist() == pytest.approx([np.nan, np.nan, 0.02, 0.02], nan_ok=True)


def test_what_cannot_be_compared(compare: list[str], grids: list[Path], checkpoints: Path, refused: Refused) -> None:
    grids[1].write_text(GRID.replace('"premise"', '["premise", "conclusion premise"]'))
    refused(2, "the grid varies index settings, which must be identical for all enrichments", *compare)
    probe = json.loads((checkpoints / "two" / "probe.json").read_text())
    (checkpoints / "two" / "probe.json").write_text(json.dumps(probe))
    refused(4, "probe.json: damaged", *compare)  # before anything is enriched
