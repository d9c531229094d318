"""Tests of tuning lexical systems: points, cross-validation, cache, errors, a study."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

from aragorn.index.weighting import RM3, Dirichlet
from aragorn.storage.checkpoint_directory import read_config
from aragorn.systems.lexical import LexicalParameters
from aragorn_training import configs
from aragorn_training.__main__ import main
from aragorn_training.evaluation.significance import apply_holm_correction
from aragorn_training.studies import enrichments
from aragorn_training.tuning import grid as grid_search
from aragorn_training.tuning.grid import load_grid
from tests.conftest import argv, write_deepct, write_targer

GRID = """
[index]
stemmer = "none"
[model]
name = "dirichlet"
mu = [1, 200, 5000]
[expansion]
max_df_ratio = 1.0
fb_terms = [6]
original_query_weight = [0.5, 1.0]
"""
MEASURE = "nDCG@5"
GRID_SIZES = {"bm25_arguments": 28, "dirichlet": 40, "bm25_rm3": 280, "dirichlet_rm3": 140}
GRID_SIZES |= {"bm25_rm3_thesis": 140}


@pytest.fixture
def tune(corpus_with_topics, tmp_path, qrels_files):
    """Return a function that returns the command that tunes a system on a grid."""

    def command(output="mine", grid=GRID, files=tuple(qrels_files)):
        (tmp_path / "mine.toml").write_text(grid)
        qrels = [flag for file in files for flag in ("--qrels", str(file))]
        paths = argv("-i", corpus_with_topics, "-o", tmp_path / output, "--work-dir", tmp_path)
        return ["tune", str(tmp_path / "mine.toml"), *qrels, *paths]

    return command


def test_tune_saves_the_best_point(tune, tmp_path, capsys):
    assert main(tune()) == 0
    table = pd.read_csv(tmp_path / "mine" / "grid.csv")
    metrics = json.loads((tmp_path / "mine" / "metrics.json").read_text())
    columns = ["model.mu", "expansion.fb_terms", "expansion.original_query_weight"]
    points = [[mu, 6, original] for mu in (1, 200, 5000) for original in (0.5, 1.0)]
    assert table[columns].to_numpy().tolist() == points
    assert table[MEASURE].nunique() > 2
    best = table.sort_values([MEASURE, "AP"], ascending=False, kind="stable").iloc[0]
    expansion = RM3(10, 6, best["expansion.original_query_weight"], max_df_ratio=1.0)
    parameters = read_config(tmp_path / "mine", LexicalParameters)
    assert (parameters.model, parameters.expansion) == (Dirichlet(best["model.mu"]), expansion)
    assert metrics["in-sample"][MEASURE] == pytest.approx(best[MEASURE], abs=1e-4)
    assert metrics["cross-validated"][MEASURE] <= metrics["in-sample"][MEASURE]
    assert (metrics["topics"], metrics["points"], len(metrics["folds"])) == (3, 6, 2)
    assert f"{best[MEASURE]:.4f}" in capsys.readouterr().out


def test_finished_points_are_cached(tune, tmp_path, monkeypatch):
    rank_with = grid_search.rank_with
    models = []

    def record(point, retrieval):
        models.append(point.model)
        return rank_with(point, retrieval)

    monkeypatch.setattr(grid_search, "rank_with", record)
    grid = "[index]\nstemmer = 'none'\n[model]\nname = 'dirichlet'\nmu = [1, 200]"
    assert main(tune("mine", grid)) == main(tune("wider", grid.replace("200]", "200, 9000]"))) == 0
    assert models == [Dirichlet(1), Dirichlet(200), Dirichlet(9000)]
    wider = (tmp_path / "wider" / "grid.csv").read_text()
    assert wider.startswith((tmp_path / "mine" / "grid.csv").read_text())


def test_folds_are_files_or_five_random_folds():
    topics = [str(n) for n in range(12)]
    folds = grid_search._assign_folds(topics, [{"1", "3"}, set(topics) - {"1", "3"}])
    assert folds.tolist() == [1, 0, 1, 0] + [1] * 8
    folds, again = (grid_search._assign_folds(topics, [set(topics)]).tolist() for _ in range(2))
    assert sorted(np.bincount(folds).tolist()) == [2, 2, 2, 3, 3]
    assert folds == again


def test_best_point_breaks_ties_by_map_and_order():
    values = np.array([[[0.2, 0.9]], [[0.5, 0.1]], [[0.5, 0.3]], [[0.5, 0.3]]])
    assert grid_search.find_best_point(values) == 2


def test_cross_validation_selects_on_the_other_folds():
    values = np.zeros((12, 3, 2))
    # point 4 is best on the first fold's topic, point 7 on the second's
    values[4, 0], values[7, 1:] = 1.0, 1.0
    points, held_out = grid_search.cross_validate(values, np.array([0, 1, 1]), [0, 1])
    assert points == [7, 4]
    assert held_out.tolist() == [[0.0, 0.0]] * 3
    assert grid_search.cross_validate(values, np.array([0, 0, 0]), [0, 1])[0] == []


BM25 = "[index]\n[model]\nname = 'bm25'\n"
LARGE = f"k1 = {[1] * 1000}\nb = {[1] * 1000}"
INVALID_GRIDS = [
    ("[model]\nname = 'bm26'", "bm26"),
    ("[model]\nname = 'bm25'\nk4 = [1]", "k4"),
    ("[model", "cannot be read as TOML"),
    (BM25, "no list of values; list each value"),
    (f"{BM25}k1 = []", "0 combinations of values; expected 1 to 100,000"),
    (f"{BM25}{LARGE}", "1,000,000 combinations of values; expected"),
    (f"{BM25}k1 = [1, 1.0]", "repeated values; list each value"),
]


@pytest.mark.parametrize(("grid", "message"), INVALID_GRIDS)
def test_invalid_grids_are_rejected(grid, message, tune, tmp_path, assert_fails):
    assert_fails(2, message, *tune(grid=grid))
    assert not (tmp_path / "mine").exists()


def test_duplicate_judgments_are_rejected(tune, qrels_files, assert_fails):
    file = qrels_files[0]
    message = "duplicate qrels name 'first'; name each file with NAME=FILE"
    assert_fails(2, message, *tune(files=[file, file]))
    message = f"{file} and {file}: duplicate judgment of "
    assert_fails(3, message, *tune(files=[file, f"again={file}"]))
    assert_fails(2, "did you mean 'dirichlet'?", "tune dirichlett --qrels", file, "-i in -o out")


@pytest.mark.parametrize("name", configs.list_names("grid"))
def test_shipped_grids_are_valid(name):
    points = load_grid(name).points
    plain_name = name.removeprefix("deepct_").removeprefix("targer_").removesuffix("_thesis")
    assert len(points) == len({point.fingerprint for point in points})
    assert len(points) == GRID_SIZES.get(name, GRID_SIZES[plain_name])


PREMISE_GRID = """
[index]
fields = "premise"
[model]
name = "dirichlet"
mu = [1, 5000]
"""
OTHER_GRID = """
[index]
[model]
name = "bm25"
b = [0.0, 0.75]
[expansion]
max_df_ratio = 1.0
fb_terms = 2
"""


@pytest.fixture
def checkpoints(tmp_path):
    write_deepct(tmp_path / "checkpoints", "one")
    write_targer(tmp_path / "checkpoints", "two")
    return tmp_path / "checkpoints"


@pytest.fixture
def compare(corpus_with_topics, tmp_path, qrels_files, checkpoints):
    """Return the command that compares two enrichments on two grids and a third of the corpus."""
    corpus = corpus_with_topics / "args-me.json"
    arguments = json.loads(corpus.read_text())["arguments"][::3]
    corpus.write_text(json.dumps({"arguments": arguments}))
    command = ["study", "enrichments", "one", "two"]
    for name, grid in (("mine", PREMISE_GRID), ("other", OTHER_GRID)):
        (tmp_path / f"{name}.toml").write_text(grid)
        command += ["--grid", str(tmp_path / f"{name}.toml")]
    command += argv("-o", tmp_path / "table.csv", "--device cpu --work-dir", tmp_path / "work")
    command += argv("-i", corpus_with_topics, "--checkpoints", checkpoints)
    return command + [flag for file in qrels_files for flag in ("--qrels", str(file))]


def test_study_tabulates_cross_validated_means(compare, checkpoints, tmp_path, monkeypatch):
    indexes = {}
    evaluate_grid = grid_search.evaluate_grid

    def record(name, grid, *args):
        indexes[name] = {(point.index.fields, point.enrichment) for point in grid.points}
        return evaluate_grid(name, grid, *args)

    monkeypatch.setattr(grid_search, "evaluate_grid", record)
    assert main(compare) == 0
    assert {name: index for name, index in indexes.items() if name.endswith("mine")} == {
        "none-mine": {("conclusion premise", None)}, "none (premise)-mine": {("premise", None)},
        "one-mine": {("premise", "one")}, "two-mine": {("conclusion premise", "two")},
    }  # fmt: skip
    tables = dict(list(pd.read_csv(tmp_path / "table.csv").groupby("topics", sort=False)))
    n_topics = {name: rows["n"].unique().tolist() for name, rows in tables.items()}
    assert n_topics == {"all judged": [3], "first": [1], "second": [2]}
    table, first, second = (rows["mean"].to_numpy() for rows in tables.values())
    assert table == pytest.approx((first + 2 * second) / 3, abs=2e-6)
    table = tables["all judged"]
    means = table.set_index(["enrichment", "retrieval_model", "measure"])["mean"]
    names = ("none", "none (premise)", "one", "two")
    assert means.index.tolist() == [*product(names, ("mine", "other"), enrichments.MEASURES)]
    plain = table[table["enrichment"] == "none"]
    enriched = table[table["enrichment"] != "none"]
    assert plain[["difference", "p_t", "p_randomisation_holm"]].isna().all(axis=None)
    merged = enriched.merge(plain, on=["retrieval_model", "measure"], suffixes=("", "_plain"))
    differences = merged["mean"] - merged["mean_plain"]
    assert merged["difference"].tolist() == pytest.approx(differences.tolist(), abs=2e-6)
    controls = enriched[enriched["enrichment"] == "none (premise)"]
    assert controls[["p_t_holm", "p_randomisation_holm"]].isna().all(axis=None)
    # two enrichments and two models
    for _, group in enriched.drop(controls.index).groupby("measure"):
        corrected = apply_holm_correction(group["p_t"].to_numpy())
        assert group["p_t_holm"].to_numpy() == pytest.approx(corrected, abs=5e-6, nan_ok=True)
    write_deepct(checkpoints, "one", 5)  # retrained, so cached results are not used
    grid = ["--grid", str(tmp_path / "mine.toml")]
    assert main(["study", "enrichments", "one", *grid, *compare[compare.index("-o") :]]) == 0
    retrained = pd.read_csv(tmp_path / "table.csv").query("topics == 'all judged'")
    assert retrained.groupby("enrichment")["mean"].sum()["one"] != means["one", "mine"].sum()


def test_study_refuses_varying_indexes_and_damage(compare, checkpoints, tmp_path, assert_fails):
    grid = PREMISE_GRID.replace('"premise"', '["premise", "conclusion premise"]')
    (tmp_path / "other.toml").write_text(grid)
    message = "the grid varies index settings, which must be identical for all enrichments"
    assert_fails(2, message, *compare)
    (checkpoints / "two" / "probe.json").write_text("{}")
    assert_fails(4, "probe.json: damaged", *compare)  # before any document is enriched
