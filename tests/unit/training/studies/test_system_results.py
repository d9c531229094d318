"""Tests of the results of all systems: nested tuning, held-out years, tables."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from aragorn.__main__ import main as aragorn
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn.storage.archives import hash_input_files
from aragorn.systems.catalogue import SYSTEMS
from aragorn_training.__main__ import main
from aragorn_training.data.quality import Options as QualityOptions
from aragorn_training.data.quality import prepare_quality
from aragorn_training.evaluation.evaluate import evaluate_run
from aragorn_training.evaluation.significance import bootstrap_means, compare_with_baseline
from aragorn_training.fusion.recipe import load_fusion_recipe
from aragorn_training.report.published import RESULTS
from aragorn_training.report.sections import HELD_OUT, MEASURES, NESTED
from aragorn_training.studies.results import nested, tabulate_significance
from aragorn_training.studies.results.nested import NestedTuning
from aragorn_training.tuning.grid import Grid, JudgedTopics, load_grid
from tests.conftest import copy_with_topics
from tests.unit.training.conftest import write_quality


@pytest.fixture
def small_grids(monkeypatch):
    """Reduce grids to three points, and the cross-validation to two partitions."""

    def load_small_grid(name):
        points = load_grid(name).points
        return Grid({}, points[:: len(points) // 2][:3])

    monkeypatch.setattr(nested, "load_grid", load_small_grid)
    monkeypatch.setattr(nested, "N_PARTITIONS", 2)


@pytest.fixture
def judged_input(corpus, tmp_path):
    """Copy `corpus` with eight topics, whose titles are conclusions, and return its directory."""
    return copy_with_topics(corpus, tmp_path / "judged", range(0, 480, 60))


def judge(retrieval, seed):
    """Judge the top thirty documents of `dirichlet` at random."""
    ranking = retrieval.rank(SYSTEMS["dirichlet"].stage)
    pool = ranking[ranking["rank"] <= 30].reset_index(drop=True)
    return pool[["qid", "docno"]].assign(rel=np.random.default_rng(seed).integers(0, 3, len(pool)))


@pytest.mark.slow
@pytest.mark.usefixtures("small_grids")
@pytest.mark.parametrize("name", ["dirichlet", "snrm", "tfr_bert", "fusion"])
def test_tuning_does_not_depend_on_held_out_judgments(
    name, judged_input, all_checkpoints_dir, tmp_path, make_retrieval
):
    retrieval = make_retrieval(judged_input, checkpoints=all_checkpoints_dir)
    work_dir = tmp_path / "prepared"
    prepare_quality(QualityOptions(inputs=(write_quality(tmp_path / "data"),), work_dir=work_dir))
    shutil.copytree(work_dir / "quality", retrieval.session.cache.path / "quality")
    qrels = judge(retrieval, 1)
    topics = sorted(qrels["qid"].unique())
    recipe = load_fusion_recipe("fusion")
    is_training = np.array([True] * 3 + [False] * 5)
    mixed_qrels = qrels.assign(
        rel=qrels["rel"].where(qrels["qid"].isin(topics[:3]), 2 - qrels["rel"])
    )
    values = []
    for label, frame in (("first", qrels), ("mixed", mixed_qrels)):
        judged = JudgedTopics(
            frame.reset_index(drop=True), {label: label}, topics, np.zeros(8, int)
        )
        tune = NestedTuning(judged, recipe, retrieval).get_tuning(name)
        assert tune
        values.append(tune(is_training))
    np.testing.assert_array_equal(values[0][is_training], values[1][is_training])
    assert not np.array_equal(values[0][~is_training], values[1][~is_training], equal_nan=True)


def test_points_are_selected_on_training_topics():
    values = np.zeros((2, 4, len(nested.STORED_MEASURES)))
    values[0, :2], values[1, 2:] = 0.1, 0.9
    assert nested.select_point(values, np.array([True, True, False, False])) == 0
    assert nested.select_point(values, np.ones(4, bool)) == 1


def test_held_out_topics_are_evaluated_once_per_partition(monkeypatch):
    training_sets = []

    def tune(is_training):
        training_sets.append(is_training)
        return np.where(is_training, np.nan, len(training_sets))[:, None] + np.zeros(
            len(nested.STORED_MEASURES)
        )

    values = nested.cross_validate_repeatedly(tune, 11, "test")
    assert len(training_sets) == 5 * nested.N_PARTITIONS
    held_out = ~np.stack(training_sets).reshape(nested.N_PARTITIONS, 5, 11)
    assert (held_out.sum(1) == 1).all()
    assert len({partition.tobytes() for partition in held_out}) == nested.N_PARTITIONS
    calls = np.arange(1, 5 * nested.N_PARTITIONS + 1).reshape(nested.N_PARTITIONS, 5, 1)
    assert values[:, 0] == pytest.approx((held_out * calls).sum(1).mean(0))


@pytest.fixture
def study(judged_input, checkpoints_copy, tmp_path, make_retrieval):
    """Write runs of three systems and qrels of two years; return the study's command."""
    flags = [flag for name in ("dirichlet", "knrm", "bm25") for flag in ("--system", name)]
    inputs = ["-i", str(judged_input), "--checkpoints", str(checkpoints_copy), "--device", "cpu"]
    assert aragorn(["rank", *inputs, "-o", str(tmp_path / "runs"), *flags]) == 0
    years = []
    for seed, (option, year) in enumerate((("--tuning", "2020"), ("--test", "2021"))):
        qrels = judge(make_retrieval(judged_input, checkpoints=checkpoints_copy), seed)
        qrels.insert(1, "run", 0)
        qrels.to_csv(tmp_path / f"{year}.qrels", sep=" ", header=False, index=False)
        years += [option, year, str(tmp_path / f"{year}.qrels"), str(tmp_path / "runs")]
    work = ["--work-dir", str(tmp_path / "work"), "-o", str(tmp_path / "tables")]
    return ["study", "results", *inputs, *work, *years, *flags]


def select_knrm(table):
    """Return the rows of KNRM in 2021."""
    return table.query("system == 'knrm' and year == 2021")


@pytest.mark.usefixtures("small_grids")
def test_study_tabulates_both_years(study, tmp_path):
    assert main(study) == 0
    files = [f"systems{suffix}.csv" for suffix in ("", "_per_topic", "_significance")]
    means, per_topic, tests = (pd.read_csv(tmp_path / "tables" / file) for file in files)
    names = ("bm25", "knrm", "dirichlet")
    protocols = {(year, name): HELD_OUT for year in (2020, 2021) for name in names}
    protocols[2020, "dirichlet"] = NESTED
    assert means.set_index(["year", "system"])["protocol"].to_dict() == protocols
    assert set(means["family"]) == {"lexical", "neural re-ranker"}
    qrels = read_qrels(tmp_path / "2021.qrels")
    runs = {name: read_run(tmp_path / "runs" / f"aragorn-{name}.txt") for name in names[1:]}
    values = {name: evaluate_run(run, qrels)[[*MEASURES]] for name, run in runs.items()}
    rows = select_knrm(means).set_index("measure")
    assert rows.index.tolist() == list(MEASURES)
    expected = bootstrap_means(values["knrm"])
    np.testing.assert_allclose(rows[["mean", "low", "high"]], expected, atol=1e-6)
    assert rows["n"].tolist() == values["knrm"].notna().sum().tolist()
    by_topic = select_knrm(per_topic)[[*MEASURES]]
    np.testing.assert_allclose(by_topic, values["knrm"], atol=1e-6)
    [row] = select_knrm(tests).query("measure == 'nDCG@5'").to_dict("records")
    by_run = {name: table["nDCG@5"] for name, table in values.items()}
    p = compare_with_baseline(by_run, "dirichlet").loc["knrm"]
    actual = [row["n"], row["difference"], row["p"]]
    assert actual == pytest.approx(p[["n_topics", "difference", "p_randomisation"]], abs=1e-6)
    assert row["p_holm"] >= row["p"]


@pytest.mark.usefixtures("small_grids")
def test_documents_are_excluded_from_runs_and_judgments(study, tmp_path):
    run = read_run(tmp_path / "runs" / "aragorn-knrm.txt")
    excluded = run.loc[run["rank"] == 1, "docno"]
    (tmp_path / "ids").write_text("\n".join(excluded))
    assert main([*study, "--exclude-ids", str(tmp_path / "ids")]) == 0
    table = pd.read_csv(tmp_path / "tables" / "systems_excluded.csv")
    expected = {2020: ["bm25", "knrm"], 2021: ["bm25", "knrm", "dirichlet"]}
    assert table.groupby("year")["system"].unique().map(list).to_dict() == expected
    tables = (run, read_qrels(tmp_path / "2021.qrels"))
    remaining_tables = (frame[~frame["docno"].isin(excluded)] for frame in tables)
    means = evaluate_run(*remaining_tables)[[*MEASURES]].mean()
    np.testing.assert_allclose(select_knrm(table)["mean"], means, atol=1e-6)


@pytest.mark.usefixtures("small_grids")
def test_checkpoints_fitted_to_a_test_year_are_refused(study, checkpoints_copy, tmp_path, capsys):
    file = checkpoints_copy / "knrm" / "provenance.json"
    hashes = hash_input_files([tmp_path / "2021.qrels"])
    file.write_text(json.dumps(json.loads(file.read_text()) | {"training_data": {"input": hashes}}))
    assert main(study) == 3
    assert (
        "provenance.json: contains 2021.qrels, so knrm is not held-out" in capsys.readouterr().err
    )
    (tmp_path / "runs" / "aragorn-bm25.txt").unlink()
    assert main(study) == 3
    assert "0 runs <team>-bm25.txt; expected one" in capsys.readouterr().err


def test_stored_tests_are_those_of_the_stored_topics():
    types = {"qid": str, "year": str}
    per_topic = pd.read_csv(RESULTS / "systems_per_topic.csv", dtype=types)
    stored = pd.read_csv(RESULTS / "systems_significance.csv", dtype=types)
    tests = tabulate_significance(per_topic).reset_index(drop=True)
    pd.testing.assert_frame_equal(stored, tests, rtol=0, atol=1.1e-6)  # rounded to six decimals
