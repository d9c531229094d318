"""Tests of Augmented SBERT on arguments: pairs, retrieval metrics, study and checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from msgspec.structs import replace
from sentence_transformers import SentenceTransformer

from submission.inference.pretrained import PretrainedEncoder
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.padding import pad
from submission.retrieval.lexical import BM25, build_query
from submission.retrieval.term_index import IndexSettings as TermSettings
from submission.retrieval.term_index import load_or_build_term_index
from submission.storage.artifact_store import ArtifactStore
from submission.text.tokenisers import MaxLengths, WordPieceTokeniser
from tests.conftest import build_text_lookup
from training.__main__ import main
from training.data.pair_tables import load_validation_queries
from training.fitting.validation import encoder_cosine_scorer, validate_candidates
from training.sbert.networks import TrainingConfig, build_network, encode_texts, score_pairs, serialise_trainable_state
from training.sbert.pairs import load_arguments, retrieve_unlabelled_pairs, sample_gold_pairs
from training.sbert.students import STUDENT_LOSSES, TEACHER, UNTRAINED, VARIANTS, StudentExperiment, Variant
from training.sbert.trainer import TrainingRun
from training.sbert.validation import ConclusionValidator
from training.tasks import load_recipe
from training.tasks.augmented_sbert import AugmentedSBERTSpec

pytestmark = pytest.mark.usefixtures("block_network")

LEARNING = TrainingConfig("cosine", 0.003, max_length=40, bfloat16=False)
RECIPE = """ranker = "sbert"
[lengths]
query = 20
premise = 38
[encoder]
name = "tiny"
frozen_layers = 3
learning_rate = 0.003
[training]
epochs = 1
batch_size = 16
micro_batch_size = 16
[augmented_sbert]
loss = "cosent"
pairs = "gold"
gold_arguments = 20
max_silver_pairs = 30
"""
CPU = torch.device("cpu")


@pytest.fixture
def recipe_file(write_recipe: Callable[[str], str], encoder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of a recipe with a tiny encoder."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODER_DIR", encoder.parent)
    return write_recipe(RECIPE)


@pytest.fixture
def tokeniser(encoder: Path) -> WordPieceTokeniser:
    return WordPieceTokeniser.load(encoder, MaxLengths(20, 38))


@pytest.fixture
def train(prepared_work_dir: Path, tokeniser: WordPieceTokeniser) -> pd.DataFrame:
    return load_arguments(prepared_work_dir, "train", tokeniser)


@pytest.fixture
def validator(prepared_work_dir: Path, train: pd.DataFrame, tokeniser: WordPieceTokeniser) -> ConclusionValidator:
    return ConclusionValidator(train, load_arguments(prepared_work_dir, "validation", tokeniser), prepared_work_dir, tokeniser)


def test_load_arguments_truncates_conclusions_like_the_ranker(
    prepared_work_dir: Path, encoder: Path, tokeniser: WordPieceTokeniser
) -> None:
    model = build_network(encoder, LEARNING, 0, CPU)
    assert isinstance(model, SentenceTransformer)
    for text in ("topic filler abc", "see http://a.b/c topic " + "topicab " * 9, "x" * 120 + " a" * 30, ""):
        truncated = tokeniser.truncate(text, 20)
        assert model.tokenizer(truncated)["input_ids"][1:-1] == tokeniser._encode(text, 20)
        assert text.startswith(truncated)
    tokeniser = WordPieceTokeniser.load(encoder, MaxLengths(8, 38))
    train = load_arguments(prepared_work_dir, "train", tokeniser)
    table = pd.read_parquet(prepared_work_dir / "train.pieces.parquet")
    assert train["docno"].tolist() == table["docno"].tolist()
    assert train["premise"].tolist() == table["premise"].tolist()
    for conclusion, full in zip(train["conclusion"], table["conclusion"], strict=True):
        assert tokeniser._encode(conclusion, 100) == tokeniser.encode_query(full)
    assert (train["conclusion"] != table["conclusion"]).any()


def test_gold_pairs_hold_a_positive_and_a_negative_premise(train: pd.DataFrame) -> None:
    pairs = sample_gold_pairs(train, 50, np.random.default_rng(0))
    assert pairs["label"].tolist() == [1.0] * 50 + [0.0] * 50
    assert pairs["first"].tolist()[:50] == pairs["first"].tolist()[50:]
    by_premise = train.set_index("premise")
    for first, second, label in pairs.itertuples(index=False):
        assert (by_premise.loc[second, "conclusion"] == first) == (label == 1)
    docnos = by_premise.loc[pairs["second"], "docno"].tolist()
    assert len({*docnos[:50]}) == 50
    negatives = train.set_index("docno")["unrelated_docnos"]
    assert docnos[50:] == [negatives[docno][0] for docno in docnos[:50]]
    assert sample_gold_pairs(train, 50, np.random.default_rng(0)).equals(pairs)
    assert not sample_gold_pairs(train, 50, np.random.default_rng(1)).equals(pairs)
    assert len(sample_gold_pairs(train, 10**6, np.random.default_rng(0))) == 2 * len(train)


def test_teacher_does_not_depend_on_the_order_of_calls(recipe_file: str, prepared_work_dir: Path, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file)
    assert isinstance(recipe.task, AugmentedSBERTSpec)
    recipe, pairs = replace(recipe, encoder=replace(recipe.encoder, bfloat16=True)), replace(recipe.task, gold_arguments=200)
    first, second = (
        StudentExperiment(shutil.copytree(prepared_work_dir, tmp_path / name), recipe, pairs, CPU)
        for name in ("teacher first", "labels first")
    )
    teacher_weights = serialise_trainable_state(first.load_or_train(TEACHER))
    labels = second.silver["label"]
    assert np.ptp(labels) > 0
    assert serialise_trainable_state(second.load_or_train(TEACHER)) == teacher_weights
    assert first.silver["label"].equals(labels)


def test_unlabelled_pairs_are_the_top_bm25_premises(train: pd.DataFrame, tmp_path: Path) -> None:
    no_labels = train.iloc[:0].assign(first="", second="")
    all_pairs = retrieve_unlabelled_pairs(train, no_labels, 3, ArtifactStore(tmp_path / "all", {}))
    shuffled = train.sample(frac=1, random_state=1)
    from_shuffled = retrieve_unlabelled_pairs(shuffled, no_labels, 3, ArtifactStore(tmp_path / "again", {}))
    assert {*from_shuffled.itertuples(index=False)} == {*all_pairs.itertuples(index=False)}
    ordered = train.sort_values("docno", ignore_index=True)
    cache = ArtifactStore(tmp_path / "index", {})
    index = load_or_build_term_index(
        ordered["docno"].tolist(), build_text_lookup(ordered), TermSettings(fields="premise"), cache
    )
    for conclusion, rows in list(ordered.groupby("conclusion").indices.items())[::7]:
        query, values = build_query(index.analyse_query(conclusion)), np.zeros(len(ordered))
        statistics = index.get_statistics(list(query))
        for position, (term, weight) in enumerate(query.items()):
            documents, tf = index.get_postings(term)
            values[documents] += BM25().score_term(tf, index.lengths[documents], weight, statistics, position)
        values[rows] = -np.inf
        best = np.argsort(-values, kind="stable")[:3]
        premises = all_pairs.loc[all_pairs["first"] == conclusion, "second"]
        assert premises.tolist() == ordered["premise"].iloc[best].tolist()

    labelled = all_pairs.iloc[::2].assign(label=1.0)
    remaining = retrieve_unlabelled_pairs(train, labelled, 3, ArtifactStore(tmp_path / "remaining", {}))
    assert remaining.equals(all_pairs.iloc[1::2].reset_index(drop=True))


def test_validator_metrics_match_brute_force_and_fit(
    prepared_work_dir: Path, train: pd.DataFrame, validator: ConclusionValidator, encoder: Path, tokeniser: WordPieceTokeniser
) -> None:
    model = build_network(encoder, LEARNING, 0, CPU)
    assert isinstance(model, SentenceTransformer)
    validation = load_arguments(prepared_work_dir, "validation", tokeniser)
    collection = pd.concat([train, validation], ignore_index=True)
    groups = validation.groupby("normalised_conclusion", sort=False)
    titles = groups["conclusion"].first()
    cosines = encode_texts(model, titles.tolist()) @ encode_texts(model, collection["premise"].tolist()).T
    recall, reciprocal, gain = [], [], []
    for (_, group), row in zip(groups, cosines, strict=True):
        order = sorted(range(len(row)), key=lambda index: (-row[index], collection["docno"][index]))
        hits = collection["docno"].iloc[order].isin(group["docno"]).to_numpy()
        discount = 1 / np.log2(np.arange(2, 12))
        recall.append(hits[:100].sum() / 5)
        reciprocal.append(1 / (hits[:10].argmax() + 1) if hits[:10].any() else 0)
        gain.append((hits[:10] * discount).sum() / discount[:5].sum())
    expected = {"recall@100": recall, "MRR@10": reciprocal, "nDCG@10": gain}
    values = validator.retrieval_metrics(model, False)
    assert values == pytest.approx({name: 100 * np.mean(by_query) for name, by_query in expected.items()}, abs=1e-3)
    assert 0 < values["nDCG@10"] < 100

    queries = load_validation_queries(prepared_work_dir, "pieces", tokeniser)  # MAP@20 equals that of `fit`
    untrained = PretrainedEncoder.__new__(PretrainedEncoder)
    untrained.folder = encoder
    expected = validate_candidates(queries, np.arange(25), encoder_cosine_scorer(untrained, CPU))[0]["MAP@20"]
    assert validator.map_at_20(model, False) == pytest.approx(expected, abs=0.01)


def test_cache_key_depends_on_teacher_and_pair_settings(work_dir: Path, recipe_file: str, other_encoder: Path) -> None:
    recipe = load_recipe(recipe_file)
    task = recipe.task
    assert isinstance(task, AugmentedSBERTSpec)
    settings = [
        task,
        *(replace(task, **{name: getattr(task, name) + 1}) for name in ("gold_arguments", "bm25_depth", "max_silver_pairs")),
    ]
    assert len({repr(StudentExperiment(work_dir, recipe, pairs, CPU).cache_key(TEACHER)) for pairs in settings}) == 4
    changes = {
        "default": {},
        "fine-tuned": {"teacher_encoder": str(other_encoder)},
        "zero-shot": {"teacher_encoder": str(other_encoder), "train_teacher": False},
    }
    experiments = {name: StudentExperiment(work_dir, recipe, replace(task, **change), CPU) for name, change in changes.items()}
    assert len({repr(experiment.cache_key(TEACHER)) for experiment in experiments.values()}) == 3
    assert experiments["fine-tuned"].gold.equals(experiments["default"].gold)
    labels = {name: experiment.silver["label"].to_numpy() for name, experiment in experiments.items()}
    assert not np.allclose(labels["default"], labels["fine-tuned"], rtol=0, atol=1e-5)
    zero_shot = build_network(other_encoder, experiments["zero-shot"]._training_config(TEACHER), recipe.seed, CPU)
    assert labels["zero-shot"] == pytest.approx(score_pairs(zero_shot, experiments["default"].silver), abs=1e-6)
    assert not np.allclose(labels["fine-tuned"], labels["zero-shot"], rtol=0, atol=1e-5)

    experiment, silver = experiments["default"], experiments["default"].silver
    assert len(silver) == 30
    assert silver["label"].to_numpy() == pytest.approx(score_pairs(experiment.load_or_train(TEACHER), silver), abs=1e-6)
    assert silver["label"].between(0, 1).all()
    assert silver["label"].nunique() > 5
    both = experiment._training_run(Variant("cosine", "gold and silver")).pairs
    assert both[["first", "second", "label"]].equals(pd.concat([experiment.gold, silver], ignore_index=True))
    assert len(experiment._training_run(Variant("cosine", "gold")).pairs) == 40


def test_study_reuses_cached_results_and_weights(
    work_dir: Path, recipe_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(name: str) -> int:
        flags = ["--work-dir", str(work_dir), "-o", str(tmp_path / f"{name}.csv"), "--recipe", recipe_file, "--device", "cpu"]
        return main(["study", "students", *flags])

    assert run("table") == 0
    assert "multiple_negatives" in capfd.readouterr().out
    table = pd.read_csv(tmp_path / "table.csv", keep_default_na=False)
    variants = [[network.loss or "", network.pairs] for network in VARIANTS]
    assert table[["loss", "training_pairs"]].to_numpy().tolist() == variants
    assert table["n_pairs"].tolist() == [0, 40, 40, 40, 40, 30, 30, 30, 70, 70, 70]
    teacher = table.iloc[1]
    assert teacher[["recall@100", "MRR@10", "nDCG@10"]].tolist() == [""] * 3
    assert table.loc[table["loss"].isin(STUDENT_LOSSES), "nDCG@10"].nunique() > 5
    before = (tmp_path / "table.csv").read_bytes()
    assert run("table") == 0
    assert (tmp_path / "table.csv").read_bytes() == before  # including the seconds: nothing was recomputed

    shutil.rmtree(work_dir / "students-results")
    monkeypatch.setattr(TrainingRun, "train", None)  # weights are cached
    assert run("again") == 0
    recomputed = pd.read_csv(tmp_path / "again.csv", keep_default_na=False)
    assert recomputed.drop(columns="seconds").equals(table.drop(columns="seconds"))


def test_fit_saves_the_student_as_a_checkpoint(work_dir: Path, recipe_file: str, tmp_path: Path) -> None:
    output = tmp_path / "sbert"
    assert main(["fit", recipe_file, "--work-dir", str(work_dir), "-o", str(output), "--device", "cpu"]) == 0
    checkpoint = load_checkpoint(output)
    recipe = load_recipe(recipe_file)
    assert isinstance(recipe.task, AugmentedSBERTSpec)
    student, untrained = (
        StudentExperiment(work_dir, recipe, recipe.task, CPU).load_or_train(network)
        for network in (Variant("cosent", "gold"), UNTRAINED)
    )
    texts = ["topic filler abc", "topicab " * 20, ""]
    ids = [checkpoint.tokeniser.encode_premise(text) for text in texts]
    with torch.inference_mode():
        vectors = torch.cat([checkpoint.network.encode(*pad([premise])) for premise in ids]).numpy()
    assert vectors == pytest.approx(encode_texts(student, texts), abs=2e-3)  # stored in half precision
    assert vectors != pytest.approx(encode_texts(untrained, texts), abs=0.002)
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["validation"]["MAP@20"] != metrics["encoder cosine"]["MAP@20"]
    card = (output / "README.md").read_text()
    assert "trained with `python -m training fit" in card
    assert "- augmented_sbert.loss: cosent" in card
    stored = safetensors.torch.load_file(output / "model.safetensors")
    assert {name.split(".")[4] for name in stored} == {"3"}  # the trainable block of four


def test_unsuitable_recipes_are_rejected(
    work_dir: Path, recipe_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(recipe_file).write_text(RECIPE.replace("epochs = 1", "epochs = 0"))
    assert main(["fit", recipe_file, "--work-dir", str(work_dir)]) == 2
    assert "training.epochs is 0 but the network has trainable parameters" in capsys.readouterr().err
    Path(recipe_file).write_text(RECIPE[: RECIPE.index("[augmented_sbert]")])
    assert (
        main(["study", "students", "--work-dir", str(work_dir), "--recipe", recipe_file, "-o", str(tmp_path / "none.csv")]) == 2
    )
    assert "table; choose a recipe that has one" in capsys.readouterr().err
    Path(recipe_file).write_text(RECIPE)
    flags = ["--work-dir", str(work_dir / "missing"), "--recipe", recipe_file, "-o", str(tmp_path / "none.csv")]
    assert main(["study", "students", *flags]) == 3
