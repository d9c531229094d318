"""Tests of learned fusions: fitting to the sample's qrels, ranking, members, input runs and pools."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.__main__ import main as submission
from submission.data.runs import read_run
from submission.errors import CheckpointError
from submission.fusion.linear import LinearFusion
from submission.paths import CHECKPOINT_DIR
from submission.rankings import truncate_rankings
from submission.storage.checkpoint_directory import read_config
from submission.systems.catalogue import FUSION_CANDIDATES, SYSTEMS, System
from submission.systems.execution import CheckpointStore
from submission.systems.learned_fusion import LearnedFusionStage
from tests.conftest import REAL_DATA, SAMPLE, count_colours, read_files, write_learned_fusion
from tests.endtoend.conftest import AssertFails, Capture, Command, Log, MakeExecution
from training.__main__ import main
from training.evaluation.evaluate import evaluate_run
from training.evaluation.qrels import read_qrels
from training.fusion import evaluation, learned, recipe
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


@pytest.fixture
def lexical(tmp_path: Path) -> Path:
    """Copy the checkpoints of the fusions' lexical members."""
    for name in ("dirichlet", "dirichlet_rm3", "knrm"):
        shutil.copytree(CHECKPOINT_DIR / name, tmp_path / "checkpoints" / name)
    return tmp_path / "checkpoints"


@pytest.fixture
def run(lexical: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command that fits a recipe."""
    monkeypatch.setattr(evaluation, "REPETITIONS", 2)  # for speed

    def build_command(text: str = RECIPE, output: str = "checkpoints/mine", *flags: str) -> list[str]:
        (tmp_path / "mine.toml").write_text(text)
        command_flags = flags if "--qrels" in flags else (*flags, "--qrels", str(QRELS))
        data = ["-i", str(SAMPLE), "--checkpoints", str(lexical), "--device", "cpu", "--work-dir", str(tmp_path / "work")]
        paths = ["-o", str(tmp_path / output), "--results", str(tmp_path / f"{output}-tables")]
        return ["fuse", str(tmp_path / "mine.toml"), *data, *paths, *command_flags]

    return build_command


def test_fusion_is_reproducible_after_interruption(
    run: Command, lexical: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, caplog: Log
) -> None:
    monkeypatch.setitem(SYSTEMS, "mine", System("mine", MINE, "A weighted sum."))
    assert main(run()) == 0
    tables = tmp_path / "checkpoints" / "mine-tables"
    model, metrics = read_config(lexical / "mine", LinearFusion), json.loads((lexical / "mine" / "metrics.json").read_text())
    pool_depths = {member.name: member.pool_depth for member in model.members}
    assert pool_depths == {"bm25": 0, "dirichlet": 20, "dirichlet_rm3": 10}
    assert model.weights["length"] > 0.1  # long arguments are relevant in the sample
    flags = ["--system", "mine", "--system", "dirichlet", "--checkpoints", str(lexical), "--device", "cpu"]
    assert submission(["rank", "-i", str(SAMPLE), "-o", str(tmp_path / "out"), *flags]) == 0
    ranked = evaluate_run(read_run(tmp_path / "out" / "aragorn-mine.txt"), read_qrels(QRELS)).mean()
    for measure, value in metrics["in-sample"]["sample"].items():
        assert ranked[measure] == pytest.approx(value, abs=1e-4)
    means = pd.read_csv(tables / "mine_means.csv").set_index(["run", "measure"])["mean"]
    validated = metrics["cross-validated"]["sample"]
    assert means["mine", "nDCG@5 all"] == pytest.approx(validated["nDCG@5 all"], abs=1e-4)
    assert validated["nDCG@5 all"] > means["dirichlet", "nDCG@5 all"] + 0.05
    dirichlet = evaluate_run(read_run(tmp_path / "out" / "aragorn-dirichlet.txt"), read_qrels(QRELS)).mean()
    assert means["dirichlet", "MAP all"] == pytest.approx(dirichlet["MAP all"], abs=1e-6)
    weights = pd.read_csv(tables / "mine_weights.csv").set_index("feature")
    assert weights["weight"].to_dict() == pytest.approx({"intercept": model.intercept, **model.weights})
    assert (weights["ci_low"] < weights["weight"]).all()
    assert (weights["weight"] < weights["ci_high"]).all()
    tests = pd.read_csv(tables / "mine_significance.csv")
    assert set(tests["run"]) == {"bm25", "dirichlet"}
    ablation = pd.read_csv(tables / "mine_ablation.csv")
    assert set(ablation["removed_feature"]) == {*NAMES, "length"}
    ridge = ablation[(ablation["measure"] == "nDCG@5 all") & (ablation["removed_feature"] == "length")].iloc[0]
    assert ridge["mean"] - means["mine", "nDCG@5 all"] == pytest.approx(ridge["difference"], abs=2e-6)
    assert ridge["ci_low"] <= ridge["difference"] <= ridge["ci_high"]
    repeated = pd.read_csv(tables / "mine_ablation_repeated.csv").set_index(["removed_feature", "measure"])
    assert set(repeated.index.get_level_values("removed_feature")) == {"mine", *NAMES, "length"}
    without_length, fusion = repeated.loc["length", "nDCG@5 all"], repeated.loc["mine", "nDCG@5 all"]
    assert fusion["difference"] == 0
    assert without_length["difference"] == pytest.approx(without_length["mean"] - fusion["mean"], abs=2e-6)
    assert without_length["mean"] < fusion["mean"] != means["mine", "nDCG@5 all"]  # the folds differ
    candidates = pd.read_csv(tables / "mine_candidates.csv").set_index(["added_member", "measure"])
    assert set(candidates.index.get_level_values("added_member")) == {"knrm"}
    missing = "vanilla_bert_distilled"
    assert f"Skipping candidate member {missing}: {lexical} has no checkpoint {missing}" in caplog.text
    added = candidates.loc["knrm", "nDCG@5 all"]
    assert added["mean"] - means["mine", "nDCG@5 all"] == pytest.approx(added["difference"], abs=2e-6)
    assert added["difference"] != 0
    assert 0 < added["single_feature"] != added["mean"]
    models = pd.read_csv(tables / "mine_learners.csv").set_index(["learner", "measure"])
    assert set(models.index.get_level_values("learner")) == {"ridge", "trees", "ranknet"}
    ridge, trees = models.loc["ridge", "nDCG@5 all"], models.loc["trees", "nDCG@5 all"]
    assert ridge["mean"] == pytest.approx(means["mine", "nDCG@5 all"], abs=2e-6)
    assert trees["difference"] == pytest.approx(trees["mean"] - ridge["mean"], abs=2e-6)
    assert trees["ci_low"] <= trees["difference"] <= trees["ci_high"]
    assert models.xs("nDCG@5 all", level="measure")["mean"].nunique() == 3
    card = (lexical / "mine" / "README.md").read_text()
    assert f"| trees | {models.loc['trees', 'nDCG@5 (Touché)']['mean']:.3f} (" in card
    assert count_colours((lexical / "mine" / "ablation.png").read_bytes()) > 20
    assert "in-sample" in (lexical / "mine" / "README.md").read_text()
    assert "dirichlet_rm3" in capsys.readouterr().out
    system = ["explain", "-i", str(SAMPLE), "--system", "mine", "--qid", "1", "--docno", "S89c1bfbf-A23fa7870"]
    assert submission([*system, "--checkpoints", str(lexical), "--device", "cpu"]) == 0
    assert "over the pool, weight" in capsys.readouterr().out

    shutil.rmtree(tmp_path / "work")
    reordered = RECIPE.replace("dirichlet = 20\ndirichlet_rm3 = 10\nbm25 = 0", "bm25 = 0\ndirichlet_rm3 = 10\ndirichlet = 20")
    assert reordered != RECIPE

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(evaluation.FusionEvaluation, "evaluate_variants", interrupt)
        with pytest.raises(KeyboardInterrupt):
            main(run(reordered, "resumed"))
    assert not (tmp_path / "resumed").exists()
    monkeypatch.setattr(LearnedFusionStage, "compute_features", None)  # features must come from the cache
    assert main(run(reordered, "resumed")) == 0
    for part in ("", "-tables"):
        expected, resumed = read_files(lexical / f"mine{part}"), read_files(tmp_path / f"resumed{part}")
        assert resumed.keys() == expected.keys()
        assert {name for name in expected if expected[name] != resumed[name]} <= {"provenance.json"}  # contains the recipe


def test_fit_on_two_qrels(run: Command, tmp_path: Path) -> None:
    lines = [line.split() for line in QRELS.read_text().splitlines()]
    quality = "".join(f"{qid} 0 {docno} {2 * (len(docno) % 2)}\n" for qid, _, docno, _ in lines)
    (tmp_path / "quality.qrels").write_text(quality)
    both = ["--qrels", f"relevance={QRELS}", "--qrels", f"quality={tmp_path / 'quality.qrels'}"]
    weights, recipe_text = {}, RECIPE[: RECIPE.index("[comparison")].replace("candidates", "# candidates")
    for share in (0.0, 0.5, 1.0):
        assert main(run(f"{recipe_text}[fit]\nsecond_qrels_weight = {share}\n", "mixed", *both)) == 0
        metrics = json.loads((tmp_path / "mixed" / "metrics.json").read_text())
        assert set(metrics["cross-validated"]) == {"relevance", "quality"}
        weights[share] = read_config(tmp_path / "mixed", LinearFusion).weights
    for name in weights[0.5]:  # ridge regression is linear in its labels
        assert weights[0.5][name] == pytest.approx((weights[0.0][name] + weights[1.0][name]) / 2, abs=2e-6)
    assert weights[0.0] != weights[1.0]


INVALID_RECIPES = [
    ("[members", "not a valid fusion recipe"),
    (RECIPE.replace("bm25 = 0", "dirichlt = 0"), "unknown member 'dirichlt'; did you mean 'dirichlet'?"),
    (RECIPE.replace("bm25 = 0", "bm25 = -1"), "members"),
    (RECIPE.replace('"knrm"', '"knrn"'), "unknown member 'knrn'"),
    (RECIPE.replace('["knrm"', '["bm25"'), "candidates bm25, vanilla_bert_distilled: names must be unique"),
    (RECIPE.replace('"vanilla_bert_distilled"', '"knrm"'), "candidates knrm, knrm: names must be unique"),
    (RECIPE.replace("= 20", "= 0").replace("= 10", "= 0"), "no member adds documents"),
    (RECIPE.replace('"bm25", ', '"bm26", '), "unknown baseline 'bm26'"),
    (RECIPE.replace('["bm25", "dirichlet"]', "[]"), "baselines"),
    (RECIPE.replace("max_log_length = 6.5", "max_log_length = 0"), "length"),
    (RECIPE.replace("unjudged_per_topic = 5", "unjudgd = 5"), "unjudgd"),
    (RECIPE + "alpha = 0\n", "alpha"),
    (RECIPE + "second_qrels_weight = 1.5\n", "second_qrels_weight"),
    (RECIPE.replace('"lambdamart"', '"lambdamrt"'), "lambdamrt"),
    (RECIPE.replace("trees = 5", "trees = 0"), "trees"),
    (RECIPE.replace("trees = 5", "hidden = 5"), "hidden"),
    (RECIPE.replace("comparison.trees", "comparison.ridge"), "comparison.ridge: this name is reserved"),
]


def test_invalid_recipes_fail(run: Command, tmp_path: Path, assert_fails: AssertFails) -> None:
    for text, words in INVALID_RECIPES:
        assert_fails(2, words, *run(text))
    assert not (tmp_path / "checkpoints" / "mine").exists()


def test_invalid_calls_fail(run: Command, lexical: Path, assert_fails: AssertFails) -> None:
    assert_fails(2, "did you mean 'fusion'?", "fuse", "fusoin", "--qrels", QRELS, "-i", SAMPLE, "--work-dir", "w")
    assert_fails(2, "two files with different names", *run(RECIPE, "mine", *["--qrels", str(QRELS)] * 2))
    shutil.rmtree(lexical / "dirichlet_rm3")
    assert_fails(4, "member dirichlet_rm3 failed", *run())


@pytest.mark.parametrize("file", sorted(recipe.FUSIONS.glob("*.toml")), ids=lambda file: file.stem)
def test_shipped_fusion_recipes_are_valid(file: Path) -> None:
    assert recipe.read_recipe(file.stem).members
    assert learned.BOOTSTRAP_SAMPLES >= 1000


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
def stage_checkpoints(checkpoints_copy: Path) -> Path:
    """Write checkpoints of untrained networks and a fusion of them."""
    write_learned_fusion(checkpoints_copy, "mine", STAGE, POOL_DEPTHS, WEIGHTS)
    return checkpoints_copy


def test_fusion_scores_match_hand_computed_sums(
    make_execution: MakeExecution, corpus_with_topics: Path, stage_checkpoints: Path
) -> None:
    execution = make_execution(corpus_with_topics, checkpoints=stage_checkpoints)
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

    other_execution = make_execution(corpus_with_topics, checkpoints=stage_checkpoints)
    for name in ("sbert", "bm25", "knrm", "dirichlet"):
        other_execution.get_ranking(FUSION_CANDIDATES[name])  # cached rankings do not change scores
    reordered = LearnedFusionStage(STAGE.members[::-1], "mine")
    pd.testing.assert_frame_equal(other_execution.get_ranking(reordered), ranking, check_exact=True)
    single_topics = {qid: make_execution(corpus_with_topics, checkpoints=stage_checkpoints, qid=qid) for qid in ("1", "2", "3")}
    topic_ranking = ranking[ranking["qid"] == "2"].reset_index(drop=True)
    # A network's scores for a topic vary in the last digits with the other topics in the batch.
    pd.testing.assert_frame_equal(single_topics["2"].get_ranking(STAGE), topic_ranking, rtol=0, atol=1e-6)

    pairs = execution.topics[["qid"]].merge(pd.DataFrame({"docno": execution.documents.searchable_docnos[::3]}), how="cross")
    scores = STAGE.score(execution, pd.concat([pairs, ranking[["qid", "docno"]]], ignore_index=True))
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores[len(pairs) :], ranking["score"])  # documents outside the pool do not change scores
    index = next(index for index, docno in enumerate(pairs["docno"]) if docno not in set(ranking["docno"]))
    qid, docno = pairs.loc[index]
    explanation = STAGE.explain(single_topics[qid], qid, docno)
    assert "no member retrieved it" in explanation.summary
    assert explanation.score == pytest.approx(scores[index], abs=1e-6)
    for row in ranking.groupby("qid").head(3).itertuples():
        explanation = STAGE.explain(single_topics[row.qid], row.qid, row.docno)
        assert [part.label for part in explanation.contributions] == ["intercept", *POOL_DEPTHS, "length"]
        assert sum(part.value for part in explanation.contributions) == explanation.score  # exact equality
        assert explanation.score == pytest.approx(row.score, abs=1e-6)  # the explanation is computed for a single topic


def test_input_run_is_the_pool(
    make_execution: MakeExecution, corpus_with_topics: Path, stage_checkpoints: Path, tmp_path: Path
) -> None:
    documents = make_execution(corpus_with_topics, checkpoints=stage_checkpoints).documents.searchable_docnos[5:400:7]
    (tmp_path / "run.txt").write_text("".join(f"1 Q0 {docno} {n} {-n} x\n" for n, docno in enumerate(documents, 1)))
    reranking = make_execution(corpus_with_topics, input_run=tmp_path / "run.txt", checkpoints=stage_checkpoints)
    ranking = reranking.get_ranking(STAGE)
    assert sorted(ranking["docno"]) == documents
    pairs = ranking[["qid", "docno"]]
    bm25 = FUSION_CANDIDATES["bm25"].score(reranking, pairs)  # bm25 scores the pairs itself instead of reading the input run
    features = STAGE.compute_features(reranking, STAGE.load_checkpoint(reranking.checkpoints), pairs)
    np.testing.assert_array_equal(features["bm25"], bm25)
    assert len(set(ranking["score"])) > 10


def test_failed_member_is_named(
    make_execution: MakeExecution, corpus_with_topics: Path, stage_checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(type(FUSION_CANDIDATES["bm25"]), "score", lambda *_: 1 / 0)
        with pytest.raises(RuntimeError, match=r"member bm25 failed: division by zero"):
            make_execution(corpus_with_topics, checkpoints=stage_checkpoints).get_ranking(STAGE)
    (stage_checkpoints / "knrm" / "vocabulary.txt").write_text("")
    with pytest.raises(CheckpointError, match=r"member knrm failed: .*vocabulary.txt: damaged"):
        make_execution(corpus_with_topics, checkpoints=stage_checkpoints).get_ranking(STAGE)
    shutil.rmtree(stage_checkpoints / "sbert")
    with pytest.raises(CheckpointError, match=r"member sbert_conclusions failed: .*checkpoint not found"):
        LearnedFusionStage(STAGE.members[2:], "mine").get_member_checkpoints(CheckpointStore(stage_checkpoints))


def test_topic_without_documents_is_not_ranked(
    make_execution: MakeExecution, make_input: Callable[..., Path], stage_checkpoints: Path
) -> None:
    execution = make_execution(
        make_input([("1", "Are zoos cruel?"), ("2", "Quantum xylophones")]), checkpoints=stage_checkpoints
    )
    assert set(execution.get_ranking(STAGE)["qid"]) == {"1"}
    assert STAGE.score(execution, pd.DataFrame({"qid": ["2"], "docno": ["a1"]})).tolist() == [0.25]
