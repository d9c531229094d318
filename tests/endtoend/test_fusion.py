"""Tests of learned fusions: fitting to the sample's qrels, ranking, members, input runs and pools."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.__main__ import main as submission
from submission.data.runs import read_run
from submission.fusion.linear import LinearFusion
from submission.paths import CHECKPOINT_DIR
from submission.rankings import truncate_rankings
from submission.storage.checkpoint_directory import read_config
from submission.systems.catalogue import FUSION_CANDIDATES, SYSTEMS, System
from submission.systems.learned_fusion import LearnedFusionStage
from tests.conftest import REAL_DATA, SAMPLE, count_colours, read_files, write_learned_fusion
from tests.endtoend.conftest import AssertFails, Execute, Log, MakeExecution
from training.__main__ import main
from training.evaluation.evaluate import evaluate_run
from training.evaluation.qrels import read_qrels
from training.fusion import evaluation, recipe
from training.fusion.labels import LabelledPool
from training.fusion.learners import fit_lambdamart

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


def fuse(directory: Path, text: str = RECIPE, output: str = "checkpoints/mine", *flags: str) -> list[str]:
    """Write a recipe, and return the command that fits it to the sample."""
    (directory / "mine.toml").write_text(text)
    qrels = [] if "--qrels" in flags else ["--qrels", str(QRELS)]
    data = ["-i", str(SAMPLE), "--checkpoints", str(directory / "checkpoints"), "--device", "cpu"]
    paths = ["--work-dir", str(directory / "work"), "-o", str(directory / output), "--results", f"{directory / output}-tables"]
    return ["fuse", str(directory / "mine.toml"), *data, *paths, *flags, *qrels]


@pytest.fixture(scope="module")
def two_repetitions() -> Iterator[None]:
    """Compare fusions over two repetitions of the cross-validation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "REPETITIONS", 2)
        yield


def copy_members(directory: Path) -> Path:
    """Copy the checkpoints of the fusion's members to a directory."""
    for name in ("dirichlet", "dirichlet_rm3", "knrm"):
        shutil.copytree(CHECKPOINT_DIR / name, directory / "checkpoints" / name)
    return directory


@pytest.fixture
def members(two_repetitions: None, tmp_path: Path) -> Path:
    return copy_members(tmp_path)


@pytest.fixture(scope="module")
def fitted(two_repetitions: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fit the recipe, and return the checkpoint."""
    directory = copy_members(tmp_path_factory.mktemp("fusion"))
    assert main(fuse(directory)) == 0
    return directory / "checkpoints" / "mine"


def read_table(fitted: Path, name: str, index: str) -> pd.DataFrame:
    """Read a table of results and, if it has several measures, select nDCG@5."""
    table = pd.read_csv(fitted.with_name("mine-tables") / f"mine_{name}.csv").set_index(index)
    return table[table["measure"] == "nDCG@5 all"] if "measure" in table else table


def test_runs_reach_the_reported_measures(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYSTEMS, "mine", System("mine", MINE, "A weighted sum."))
    flags = ["--system", "mine", "--system", "dirichlet", "--checkpoints", str(fitted.parent), "--device", "cpu"]
    assert submission(["rank", "-i", str(SAMPLE), "-o", str(tmp_path / "out"), *flags]) == 0
    runs = (read_run(tmp_path / "out" / f"aragorn-{name}.txt") for name in ("mine", "dirichlet"))
    ranked, dirichlet = (evaluate_run(run, read_qrels(QRELS)).mean() for run in runs)
    metrics, means = json.loads((fitted / "metrics.json").read_text()), read_table(fitted, "means", "run")["mean"]
    assert ranked[list(metrics["in-sample"]["sample"])].to_dict() == pytest.approx(metrics["in-sample"]["sample"], abs=1e-4)
    validated = metrics["cross-validated"]["sample"]["nDCG@5 all"]
    assert means["mine"] == pytest.approx(validated, abs=1e-4)
    assert means["dirichlet"] == pytest.approx(dirichlet["nDCG@5 all"], abs=1e-6)
    assert means["mine"] > means["dirichlet"] + 0.05


def test_weights_are_those_of_the_model(fitted: Path) -> None:
    model, weights = read_config(fitted, LinearFusion), read_table(fitted, "weights", "feature")
    assert {member.name: member.pool_depth for member in model.members} == {"bm25": 0, "dirichlet": 20, "dirichlet_rm3": 10}
    assert model.weights["length"] > 0.1  # long arguments are relevant in the sample
    assert weights["weight"].to_dict() == pytest.approx({"intercept": model.intercept, **model.weights})
    assert (weights["ci_low"] < weights["weight"]).all()
    assert (weights["weight"] < weights["ci_high"]).all()
    assert count_colours((fitted / "ablation.png").read_bytes()) > 20


def test_variants_are_compared_with_the_fusion(fitted: Path) -> None:
    mean = read_table(fitted, "means", "run").loc["mine", "mean"]
    ablation = read_table(fitted, "ablation_repeated", "removed_feature")
    candidates, models = read_table(fitted, "candidates", "added_member"), read_table(fitted, "learners", "learner")
    assert set(ablation.index) == {"mine", *NAMES, "length"}
    removed = read_table(fitted, "ablation", "removed_feature").loc["length"]
    assert removed["difference"] == pytest.approx(removed["mean"] - mean, abs=2e-6)
    assert ablation.loc["length", "mean"] < ablation.loc["mine", "mean"] != mean  # the folds differ
    assert ablation["difference"].tolist() == pytest.approx(
        (ablation["mean"] - ablation.loc["mine", "mean"]).tolist(), abs=2e-6
    )
    [added] = candidates.itertuples()
    assert (added.Index, added.difference) == ("knrm", pytest.approx(added.mean - mean, abs=2e-6))
    assert 0 < added.single_feature != added.mean
    assert (set(models.index), models["mean"].nunique()) == ({"ridge", "trees", "ranknet"}, 3)
    assert models.loc["ridge", "mean"] == pytest.approx(mean, abs=2e-6)
    trees = models.loc["trees"]
    assert trees["difference"] == pytest.approx(trees["mean"] - mean, abs=2e-6)
    assert all(row["ci_low"] <= row["difference"] <= row["ci_high"] for row in (removed, trees))


@pytest.mark.slow
def test_interrupted_fit_resumes_with_cached_features(
    fitted: Path, members: Path, monkeypatch: pytest.MonkeyPatch, caplog: Log
) -> None:
    reordered = RECIPE.replace("dirichlet = 20\ndirichlet_rm3 = 10\nbm25 = 0", "bm25 = 0\ndirichlet_rm3 = 10\ndirichlet = 20")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(evaluation.FusionEvaluation, "evaluate_variants", interrupt)
        with pytest.raises(KeyboardInterrupt):
            main(fuse(members, reordered))
    assert not (members / "checkpoints" / "mine").exists()
    monkeypatch.setattr(LearnedFusionStage, "compute_features", None)  # features must come from the cache
    assert main(fuse(members, reordered)) == 0
    assert "Skipping candidate member vanilla_bert_distilled: " in caplog.text
    for part in ("mine", "mine-tables"):
        expected, resumed = read_files(fitted.with_name(part)), read_files(members / "checkpoints" / part)
        assert resumed.keys() == expected.keys()
        assert {name for name in expected if expected[name] != resumed[name]} <= {"provenance.json"}  # contains the recipe


@pytest.mark.slow
def test_second_qrels_are_weighted(members: Path) -> None:
    lines = [line.split() for line in QRELS.read_text().splitlines()]
    quality = members / "quality.qrels"
    quality.write_text("".join(f"{qid} 0 {docno} {2 * (len(docno) % 2)}\n" for qid, _, docno, _ in lines))
    both = ["--qrels", f"relevance={QRELS}", "--qrels", f"quality={quality}"]
    weights, recipe_text = {}, RECIPE[: RECIPE.index("[comparison")].replace("candidates", "# candidates")
    for share in (0.0, 0.5, 1.0):
        assert main(fuse(members, f"{recipe_text}[fit]\nsecond_qrels_weight = {share}\n", "mixed", *both)) == 0
        metrics = json.loads((members / "mixed" / "metrics.json").read_text())
        assert set(metrics["cross-validated"]) == {"relevance", "quality"}
        weights[share] = read_config(members / "mixed", LinearFusion).weights
    for name in weights[0.5]:  # ridge regression is linear in its labels
        assert weights[0.5][name] == pytest.approx((weights[0.0][name] + weights[1.0][name]) / 2, abs=2e-6)
    assert weights[0.0] != weights[1.0]


INVALID_RECIPES = [  # old text, new text, and part of the message
    (RECIPE, "[members", "not a valid fusion recipe"), ("bm25 = 0", "bm25 = -1", "members"),
    ("bm25 = 0", "dirichlt = 0", "unknown member 'dirichlt'; did you mean 'dirichlet'?"),
    ('["knrm"', '["bm25"', "candidates bm25, vanilla_bert_distilled: names must be unique"),
    ('"vanilla_bert_distilled"', '"knrm"', "candidates knrm, knrm: names must be unique"),
    ("20\ndirichlet_rm3 = 10", "0\ndirichlet_rm3 = 0", "no member adds documents"),
    ('"bm25", ', '"bm26", ', "unknown baseline 'bm26'"), ('["bm25", "dirichlet"]', "[]", "baselines"),
    ("max_log_length = 6.5", "max_log_length = 0", "length"), ("[fit]", "[fit]\nsecond_qrels_weight = 1.5", "second_qrels"),
    ('"lambdamart"', '"lambdamrt"', "lambdamrt"), ("trees = 5", "trees = 0", "trees"), ("trees = 5", "hidden = 5", "hidden"),
    ("comparison.trees", "comparison.ridge", "comparison.ridge: this name is reserved"),
]  # fmt: skip


def test_invalid_recipes_fail(members: Path, assert_fails: AssertFails) -> None:
    for old, new, message in INVALID_RECIPES:
        assert_fails(2, message, *fuse(members, RECIPE.replace(old, new)))
    assert not (members / "checkpoints" / "mine").exists()


def test_invalid_calls_fail(members: Path, assert_fails: AssertFails) -> None:
    assert_fails(2, "did you mean 'fusion'?", "fuse", "fusoin", "--qrels", QRELS, "-i", SAMPLE, "--work-dir", "w")
    assert_fails(2, "two files with different names", *fuse(members, RECIPE, "mine", *["--qrels", str(QRELS)] * 2))
    shutil.rmtree(members / "checkpoints" / "dirichlet_rm3")
    assert_fails(4, "member dirichlet_rm3 failed", *fuse(members))


def test_shipped_fusion_recipes_are_valid() -> None:
    assert all(recipe.read_recipe(file.stem).members for file in recipe.FUSIONS.glob("*.toml"))


@pytest.mark.slow
@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the args.me data")
@pytest.mark.parametrize("model", ["ridge", "trees"])
def test_fusion_on_permuted_labels_equals_feature_mean(make_execution: MakeExecution, model: str) -> None:
    """If held-out labels leaked into the fit, overfitted trees would rank better than single features."""
    name = "touche2020-task1-relevance-args-me-corpus-version-2020-04-01-corrected.qrels"
    execution = make_execution(REAL_DATA / "touche-2020" / "input")
    qrels = read_qrels(REAL_DATA / "touche-2020" / "qrels" / name, set(execution.input.documents["docno"]))
    members = {"dirichlet": 200, "dirichlet_rm3": 0, "bm25_arguments": 0, "bm25": 0}
    fusion_recipe = recipe.FusionRecipe(members, ("dirichlet",), max_log_length=6.5)
    mine = evaluation.FusionEvaluation("words", fusion_recipe, {"relevance": qrels}, execution)
    overfitting = recipe.LambdaMARTSettings(trees=60, leaves=63, min_leaf_documents=1, learning_rate=0.3)
    learner = mine.ridge_learner if model == "ridge" else partial(fit_lambdamart, settings=overfitting, seed=0)

    def ndcg(scores: pd.DataFrame, labels: pd.DataFrame) -> float:
        return float(evaluate_run(mine.to_ranking(scores), labels)["nDCG@5 condensed"].mean())

    def cross_validated_ndcg(labels: pd.DataFrame) -> float:
        pool = LabelledPool(mine.table, [labels], recipe.FitSettings())
        return ndcg(pool.cross_validated_scores(learner, mine.folds), labels)

    permuted_scores, features = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        permuted = qrels.assign(rel=qrels.groupby("qid")["rel"].transform(rng.permutation))
        permuted_scores.append(cross_validated_ndcg(permuted))
        features += [ndcg(mine.table.assign(score=mine.table[feature]), permuted) for feature in mine.recipe.feature_names]
    assert np.mean(permuted_scores) == pytest.approx(np.mean(features), abs=0.03)
    assert cross_validated_ndcg(qrels) > np.mean(features) + 0.2


# ---- ranking with fusions


POOL_DEPTHS = {"dirichlet": 8, "knrm": 12, "bm25": 0, "sbert_conclusions": 0}
WEIGHTS = {"dirichlet": 0.5, "knrm": -0.25, "bm25": 0.125, "sbert_conclusions": 0.75}
STAGE = LearnedFusionStage(tuple((name, FUSION_CANDIDATES[name]) for name in POOL_DEPTHS), "mine")


@pytest.fixture
def fusion_checkpoint(checkpoints_copy: Path) -> Path:
    """Write checkpoints of untrained networks and a fusion of them."""
    write_learned_fusion(checkpoints_copy, "mine", STAGE, POOL_DEPTHS, WEIGHTS)
    return checkpoints_copy


def test_fusion_scores_match_hand_computed_sums(execute: Execute, fusion_checkpoint: Path) -> None:
    execution = execute()
    ranking = execution.get_ranking(STAGE)
    member_pools = [
        truncate_rankings(execution.get_ranking(FUSION_CANDIDATES[name]), POOL_DEPTHS[name])[["qid", "docno"]]
        for name in ("dirichlet", "knrm")
    ]
    pool = pd.concat(member_pools).drop_duplicates().reset_index(drop=True)
    assert sorted(map(tuple, ranking[["qid", "docno"]].to_numpy())) == sorted(map(tuple, pool.to_numpy()))
    assert 36 < len(pool) < 60  # three topics of 20, minus duplicates
    words = execution.documents.read_texts(set(pool["docno"])).set_index("docno")["premise"].str.split().str.len()
    features = {name: FUSION_CANDIDATES[name].score(execution, pool) for name in POOL_DEPTHS}
    features["length"] = np.minimum(np.log(pool["docno"].map(words)), 6.5)
    expected = pd.Series(0.25, index=pool.index)
    for name, values in features.items():
        by_topic = pd.Series(values, index=pool.index).groupby(pool["qid"])
        deviations = (pd.Series(values, index=pool.index) - by_topic.transform("mean")) / by_topic.transform("std", ddof=0)
        expected += (WEIGHTS | {"length": 0.125})[name] * deviations.fillna(0.0)
    both = ranking.merge(pool.assign(expected=expected), on=["qid", "docno"])
    np.testing.assert_allclose(both["score"], both["expected"], rtol=0, atol=1e-4)


def test_scores_depend_on_neither_member_order_nor_other_documents(execute: Execute, fusion_checkpoint: Path) -> None:
    execution = execute()
    ranking, docnos = execution.get_ranking(STAGE), execution.documents.searchable_docnos[::3]
    reordered = LearnedFusionStage(STAGE.members[::-1], "mine")
    pd.testing.assert_frame_equal(execution.get_ranking(reordered), ranking, check_exact=True)
    pairs = execution.topics[["qid"]].merge(pd.DataFrame({"docno": docnos}), how="cross")
    scores = STAGE.score(execution, pd.concat([pairs, ranking[["qid", "docno"]]], ignore_index=True))
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores[len(pairs) :], ranking["score"])  # documents outside the pool do not change scores
    index = next(index for index, docno in enumerate(pairs["docno"]) if docno not in set(ranking["docno"]))
    single_topic = execute(qid=pairs["qid"][index])
    explanation = STAGE.explain(single_topic, *pairs.loc[index])
    assert "no member retrieved it" in explanation.summary
    assert explanation.score == pytest.approx(scores[index], abs=1e-6)
    assert [part.label for part in explanation.contributions] == ["intercept", *POOL_DEPTHS, "length"]


def test_internal_error_of_a_member_is_attributed(
    execute: Execute, fusion_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(FUSION_CANDIDATES["bm25"]), "score", lambda *_: 1 / 0)
    with pytest.raises(RuntimeError, match=r"member bm25 failed: division by zero"):
        execute().get_ranking(STAGE)


def test_topic_without_documents_is_not_ranked(
    make_execution: MakeExecution, make_input: Callable[..., Path], fusion_checkpoint: Path
) -> None:
    execution = make_execution(
        make_input([("1", "Are zoos cruel?"), ("2", "Quantum xylophones")]), checkpoints=fusion_checkpoint
    )
    assert set(execution.get_ranking(STAGE)["qid"]) == {"1"}
    assert STAGE.score(execution, pd.DataFrame({"qid": ["2"], "docno": ["a1"]})).tolist() == [0.25]
