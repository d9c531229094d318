"""Tests of learned fusions and the ensemble: fitting, ranking, members and pools."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from aragorn.__main__ import main as aragorn
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn.paths import CHECKPOINT_DIR
from aragorn.pipeline.session import CheckpointStore
from aragorn.storage.checkpoint_directory import read_config
from aragorn.systems.catalogue import FUSION_CANDIDATES, SYSTEMS, System
from aragorn.systems.fusion import LearnedFusionStage
from aragorn.systems.weighted_sum import WeightedSum
from aragorn_training import configs
from aragorn_training.__main__ import main
from aragorn_training.evaluation.evaluate import evaluate_run
from aragorn_training.fusion import evaluation, recipe
from aragorn_training.fusion.ensemble import FIT_CANDIDATES
from tests.conftest import SAMPLE, argv, assert_runs, write_fusion

QRELS = SAMPLE.parent / "sample.qrels"
RECIPE = """
baselines = ["bm25", "dirichlet"]
candidates = ["knrm", "vanilla_bert_distilled"]
max_log_length = 6.5
[members]
dirichlet = 20
dirichlet_rm3 = 10
bm25 = 0
[comparison.trees]
model = "lambdamart"
trees = 5
[comparison.ranknet]
model = "ranknet"
hidden_units = 3
steps = 5
[fit]
unjudged_per_topic = 5
"""
NAMES = ("dirichlet", "dirichlet_rm3", "bm25")
MINE = LearnedFusionStage(tuple((name, FUSION_CANDIDATES[name]) for name in NAMES), "mine")

# ---- fitting fusions


def fuse(directory, text=RECIPE, output="mine", qrels=(QRELS,)):
    """Write a recipe, and return the command that fits it to the topics and qrels of the sample."""
    (directory / "mine.toml").write_text(text)
    command = argv("fuse", directory / "mine.toml", "-i", SAMPLE, "--candidates --device cpu")
    command += argv("--work-dir", directory / "work", "-o", directory / output)
    command += argv("--results", directory / f"{output}-tables", "--checkpoints", directory)
    return command + [flag for file in qrels for flag in ("--qrels", str(file))]


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """Copy the members' checkpoints, and reduce the cross-validation to two repetitions."""
    directory = tmp_path_factory.mktemp("fusion")
    for name in ("dirichlet", "dirichlet_rm3", "knrm"):
        shutil.copytree(CHECKPOINT_DIR / name, directory / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "N_REPETITIONS", 2)
        yield directory


@pytest.fixture(scope="module")
def fusion_dir(members):
    """Fit the fusion of `RECIPE`, and return its checkpoint."""
    assert main(fuse(members)) == 0
    return members / "mine"


def read_table(fusion_dir, name, index):
    """Read a table of results, only with its rows of nDCG@5 if it has a column `measure`."""
    table = pd.read_csv(fusion_dir.with_name("mine-tables") / f"mine_{name}.csv").set_index(index)
    return table[table["measure"] == "nDCG@5"] if "measure" in table else table


def test_runs_reach_the_reported_measures(fusion_dir, tmp_path, monkeypatch):
    monkeypatch.setitem(SYSTEMS, "mine", System("mine", MINE, "A weighted sum."))
    flags = argv("--system mine --system dirichlet --device cpu --checkpoints", fusion_dir.parent)
    assert_runs(aragorn, "rank -i", SAMPLE, "-o", tmp_path / "out", *flags)
    runs = (read_run(tmp_path / "out" / f"aragorn-{name}.txt") for name in ("mine", "dirichlet"))
    ranked, dirichlet = (evaluate_run(run, read_qrels(QRELS)).mean() for run in runs)
    metrics = json.loads((fusion_dir / "metrics.json").read_text())
    in_sample = metrics["in-sample"]["sample"]
    assert ranked[list(in_sample)].to_dict() == pytest.approx(in_sample, abs=1e-4)
    means = read_table(fusion_dir, "means", "run")["mean"]
    validated = metrics["cross-validated"]["sample"]["nDCG@5"]
    assert means["mine"] == pytest.approx(validated, abs=1e-4)
    assert means["dirichlet"] == pytest.approx(dirichlet["nDCG@5"], abs=1e-6)
    assert means["mine"] > means["dirichlet"] + 0.05


def test_weights_are_those_of_the_model(fusion_dir):
    model = read_config(fusion_dir, WeightedSum)
    table = read_table(fusion_dir, "weights", "feature")
    depths = {member.name: member.pool_depth for member in model.members}
    assert depths == {"bm25": 0, "dirichlet": 20, "dirichlet_rm3": 10}
    assert model.weights["length"] > 0.1  # long arguments are relevant in the sample
    weights = {"intercept": model.intercept, **model.weights}
    assert table["weight"].to_dict() == pytest.approx(weights)
    assert table["weight"].between(table["ci_low"], table["ci_high"]).all()


TABLES = [  # name; index; rows
    ("ablation", "removed_feature", {*NAMES, "length"}),
    ("ablation_repeated", "removed_feature", {"mine", *NAMES, "length"}),
    ("candidates", "added_member", {"knrm"}),
    ("learners", "learner", {"ridge", "trees", "ranknet"}),
]


@pytest.mark.parametrize(("name", "index", "rows"), TABLES)
def test_variants_are_compared_with_the_fusion(fusion_dir, name, index, rows):
    means = read_table(fusion_dir, "means", "run")["mean"]
    table = read_table(fusion_dir, name, index)
    mean = table["mean"].get("mine", means["mine"])
    assert set(table.index) == rows
    assert table["difference"].tolist() == pytest.approx((table["mean"] - mean).tolist(), abs=2e-6)
    assert (mean != means["mine"]) == (name == "ablation_repeated")  # the folds differ
    assert table["mean"].get("ridge", mean) == pytest.approx(mean, abs=2e-6)
    intervals = table.reindex(columns=["difference", "ci_low", "ci_high"]).dropna()
    assert intervals["difference"].between(intervals["ci_low"], intervals["ci_high"]).all()
    assert table["difference"].any()


@pytest.mark.slow
def test_fusion_of_two_qrels_is_evaluated_by_both(members):
    rows = (line.split() for line in QRELS.read_text().splitlines())
    lines = [f"{qid} 0 {docno} {2 * (len(docno) % 2)}\n" for qid, _, docno, _ in rows]
    quality = members / "quality.qrels"
    quality.write_text("".join(lines))
    qrels = [f"relevance={QRELS}", f"quality={quality}"]
    assert main(fuse(members, output="mixed", qrels=qrels)) == 0
    metrics = json.loads((members / "mixed" / "metrics.json").read_text())
    assert set(metrics["cross-validated"]) == {"relevance", "quality"}


INVALID_RECIPES = [  # old text, new text, and part of the message
    (RECIPE, "[members", "cannot be read as TOML"),
    ("bm25 = 0", "dirichlt = 0", "unknown member 'dirichlt'; did you mean 'dirichlet'?"),
    ('["knrm"', '["bm25"', "candidates bm25, vanilla_bert_distilled: names must be unique"),
    ("20\ndirichlet_rm3 = 10", "0\ndirichlet_rm3 = 0", "no member adds documents"),
    ('"bm25", ', '"bm26", ', "unknown baseline 'bm26'"), ("trees = 5", "hidden = 5", "hidden"),
    ("comparison.trees", "comparison.ridge", "comparison.ridge: this name is reserved"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), INVALID_RECIPES)
def test_invalid_recipes_fail(old, new, message, tmp_path, assert_fails):
    assert_fails(2, message, *fuse(tmp_path, RECIPE.replace(old, new)))


def test_invalid_calls_fail(members, tmp_path, assert_fails):
    command = argv("fuse fusoin --work-dir w --qrels", QRELS, "-i", SAMPLE)
    assert_fails(2, "did you mean 'fusion'?", *command)
    assert_fails(2, "equal names", *fuse(tmp_path, qrels=[QRELS, QRELS]))
    shutil.copytree(members / "dirichlet", tmp_path / "dirichlet")
    assert_fails(4, "member dirichlet_rm3 failed", *fuse(tmp_path))


def test_shipped_fusion_recipes_are_valid():
    assert all(recipe.load_fusion_recipe(name).members for name in configs.list_names("fusion"))


def test_ensemble_is_fitted_to_validation_pairs(all_checkpoints_dir, prepared_work_dir, tmp_path):
    paths = argv("--work-dir", prepared_work_dir, "--checkpoints", all_checkpoints_dir)
    output = tmp_path / "ensemble"
    assert_runs(main, "fuse ensemble_thesis", *paths, "-o", output, "--device cpu")
    model = read_config(output, WeightedSum)
    stage = SYSTEMS["ensemble_thesis"].stage
    depths = {member.name: member.pool_depth for member in model.members}
    assert depths == {name: 100 for name, _ in stage.members}
    fingerprints = stage.get_member_fingerprints(CheckpointStore(all_checkpoints_dir))
    assert model.member_fingerprints == fingerprints
    assert all(member.minimum < member.maximum for member in model.members)
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["pairs"] == 25 * len(FIT_CANDIDATES)
    assert metrics["members"].keys() == fingerprints.keys()
    assert {"MRR@20", "MAP@20", "nDCG@20"} <= metrics["validation"].keys()


# ---- ranking with fusions


POOL_DEPTHS = {"dirichlet": 8, "knrm": 12, "bm25": 0, "sbert_conclusions": 0}
WEIGHTS = {"dirichlet": 0.5, "knrm": -0.25, "bm25": 0.125, "sbert_conclusions": 0.75}
STAGE = LearnedFusionStage(tuple((name, FUSION_CANDIDATES[name]) for name in POOL_DEPTHS), "mine")


@pytest.fixture
def fusion_checkpoint(checkpoints_copy):
    """Write the fusion `STAGE` of untrained systems, and return the checkpoints' directory."""
    write_fusion(checkpoints_copy, "mine", STAGE, POOL_DEPTHS, WEIGHTS)
    return checkpoints_copy


def test_scores_depend_on_neither_member_order_nor_other_documents(execute, fusion_checkpoint):
    retrieval = execute()
    ranking = retrieval.rank(STAGE)
    reordered = LearnedFusionStage(STAGE.members[::-1], "mine")
    pd.testing.assert_frame_equal(retrieval.rank(reordered), ranking, check_exact=True)
    docnos = retrieval.collection.documents.searchable_docnos[::3]
    pairs = retrieval.topics[["qid"]].merge(pd.DataFrame({"docno": docnos}), how="cross")
    both = pd.concat([pairs, ranking[["qid", "docno"]]], ignore_index=True)
    scores = STAGE.score(retrieval, both)
    assert np.isfinite(scores).all()
    # documents outside the pool do not change scores
    np.testing.assert_array_equal(scores[len(pairs) :], ranking["score"])
    index = (~pairs["docno"].isin(ranking["docno"])).idxmax()
    explanation = STAGE.explain(execute(qid=pairs["qid"][index]), *pairs.loc[index])
    assert "no member retrieved it" in explanation.summary
    assert explanation.score == pytest.approx(scores[index], abs=1e-6)
    expected = ["intercept", *POOL_DEPTHS, "length"]
    assert [part.label for part in explanation.contributions] == expected


def test_internal_error_of_a_member_is_attributed(execute, fusion_checkpoint, monkeypatch):
    monkeypatch.setattr(type(FUSION_CANDIDATES["bm25"]), "score", lambda *_: 1 / 0)
    with pytest.raises(RuntimeError, match=r"member bm25 failed: division by zero"):
        execute().rank(STAGE)


def test_topic_without_documents_is_not_ranked(make_retrieval, make_input, fusion_checkpoint):
    directory = make_input([("1", "Are zoos cruel?"), ("2", "Quantum xylophones")])
    retrieval = make_retrieval(directory, checkpoints=fusion_checkpoint)
    assert set(retrieval.rank(STAGE)["qid"]) == {"1"}
    assert STAGE.score(retrieval, pd.DataFrame({"qid": ["2"], "docno": ["a1"]})).tolist() == [0.25]


def test_all_missing_networks_are_named(
    all_checkpoints_dir, prepared_work_dir, tmp_path, assert_fails
):
    shutil.copytree(all_checkpoints_dir / "knrm", tmp_path / "some" / "knrm")
    missing = "no checkpoint of gru, drmm, conv_knrm, vanilla_bert, cedr_drmm, cedr_knrm, snrm;"
    command = argv("fuse ensemble --work-dir", prepared_work_dir)
    assert_fails(4, missing, *command, "--checkpoints", tmp_path / "some")
