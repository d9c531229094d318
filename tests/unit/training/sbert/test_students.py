"""Tests of Augmented SBERT on arguments: pairs, retrieval metrics, study and checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from msgspec.structs import replace
from sentence_transformers import SentenceTransformer

from submission.inference.pretrained import PretrainedEncoder
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.padding import pad
from submission.storage.artifact_store import ArtifactStore
from submission.text.tokenisers import MaxLengths, WordPieceTokeniser
from tests.conftest import read_files
from training.__main__ import main
from training.data.pair_tables import load_validation_queries
from training.fitting.recipe import Recipe
from training.fitting.validation import build_encoder_scorer, validate_candidates
from training.sbert.networks import TrainingConfig, build_network, encode_texts, score_pairs
from training.sbert.pairs import load_arguments, retrieve_unlabelled_pairs, sample_gold_pairs
from training.sbert.students import STUDENT_LOSSES, TEACHER, UNTRAINED, VARIANTS, StudentExperiment, TrainingVariant
from training.sbert.validation import ConclusionValidator
from training.tasks import load_recipe
from training.tasks.augmented_sbert import AugmentedSBERTSpec

pytestmark = pytest.mark.usefixtures("block_network")

STUDENT_TRAINING = TrainingConfig("cosine", 0.003, max_length=40, bfloat16=False)
RECIPE = """ranker = "sbert"
[lengths]
query = 20
premise = 38
[encoder]
name = "ENCODER"
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
def recipe_file(write_recipe: Callable[[str], str], encoder: Path) -> str:
    """Write a recipe with a tiny encoder and return its path."""
    return write_recipe(RECIPE.replace("ENCODER", str(encoder)))


@pytest.fixture
def tokeniser(encoder: Path) -> WordPieceTokeniser:
    return WordPieceTokeniser.load(encoder, MaxLengths(20, 38))


@pytest.fixture
def train(prepared_work_dir: Path, tokeniser: WordPieceTokeniser) -> pd.DataFrame:
    return load_arguments(prepared_work_dir, "train", tokeniser)


def build_experiment(work: Path, recipe: Recipe, **changes: object) -> StudentExperiment:
    assert isinstance(recipe.task, AugmentedSBERTSpec)
    return StudentExperiment(work, recipe, replace(recipe.task, **changes), CPU)


def test_gold_pairs_hold_a_positive_and_a_negative_premise(train: pd.DataFrame) -> None:
    pairs, reseeded = (sample_gold_pairs(train, 50, np.random.default_rng(seed)) for seed in (0, 1))
    assert pairs["label"].tolist() == [1.0] * 50 + [0.0] * 50
    assert pairs["first"].tolist()[:50] == pairs["first"].tolist()[50:]
    by_premise = train.set_index("premise")
    for first, second, label in pairs.itertuples(index=False):
        assert (by_premise.loc[second, "conclusion"] == first) == (label == 1)
    docnos, negatives = by_premise.loc[pairs["second"], "docno"].tolist(), train.set_index("docno")["unrelated_docnos"]
    assert len({*docnos[:50]}) == 50
    assert docnos[50:] == [negatives[docno][0] for docno in docnos[:50]]
    assert not pairs.equals(reseeded)


def test_unlabelled_pairs_exclude_labelled_pairs_and_ignore_order(train: pd.DataFrame, tmp_path: Path) -> None:
    def retrieve(arguments: pd.DataFrame, labelled: pd.DataFrame, name: str) -> pd.DataFrame:
        return retrieve_unlabelled_pairs(arguments, labelled, 3, ArtifactStore(tmp_path / name, {}))

    no_labels = train.iloc[:0].assign(first="", second="")
    pairs = retrieve(train, no_labels, "all")
    assert pairs.groupby("first").size().unique().tolist() == [3]
    positives = train.groupby("conclusion")["premise"].agg(set)
    assert not any(second in positives[first] for first, second in pairs.itertuples(index=False))
    shuffled = retrieve(train.sample(frac=1, random_state=1), no_labels, "shuffled")
    assert {*shuffled.itertuples(index=False)} == {*pairs.itertuples(index=False)}
    remaining = retrieve(train, pairs.iloc[::2].assign(label=1.0), "remaining")
    assert remaining.equals(pairs.iloc[1::2].reset_index(drop=True))


def test_validator_metrics_match_brute_force_and_fit(
    prepared_work_dir: Path, train: pd.DataFrame, encoder: Path, tokeniser: WordPieceTokeniser
) -> None:
    model = build_network(encoder, STUDENT_TRAINING, 0, CPU)
    assert isinstance(model, SentenceTransformer)
    validation = load_arguments(prepared_work_dir, "validation", tokeniser)
    validator = ConclusionValidator(train, validation, prepared_work_dir, tokeniser)
    collection = pd.concat([train, validation], ignore_index=True)
    groups = validation.groupby("normalised_conclusion", sort=False)
    vectors = encode_texts(model, collection["premise"].tolist())
    cosines = encode_texts(model, groups["conclusion"].first().tolist()) @ vectors.T
    hits = np.array([
        collection["docno"].iloc[np.lexsort((collection["docno"], -row))].isin(group["docno"])
        for (_, group), row in zip(groups, cosines, strict=True)
    ])  # fmt: skip
    discount = 1 / np.log2(np.arange(2, 12))
    expected = {
        "recall@100": hits[:, :100].sum(1) / 5,
        "MRR@10": (hits[:, :10] / np.arange(1, 11)).max(1),
        "nDCG@10": (hits[:, :10] * discount).sum(1) / discount[:5].sum(),
    }
    values = {name: 100 * by_query.mean() for name, by_query in expected.items()}
    assert validator.measure_retrieval(model, False) == pytest.approx(values, abs=1e-3)
    queries = load_validation_queries(prepared_work_dir, "pieces", tokeniser)  # MAP@20 equals that of `fit`
    scorer = build_encoder_scorer(PretrainedEncoder(str(encoder)), CPU)
    map_at_20 = validate_candidates(queries, np.arange(25), scorer)[0]["MAP@20"]
    assert validator.measure_map_at_20(model, False) == pytest.approx(map_at_20, abs=0.01)


def test_teacher_labels_the_silver_pairs(work_dir: Path, recipe_file: str, other_encoder: Path) -> None:
    recipe, teacher = load_recipe(recipe_file), str(other_encoder)
    experiment = build_experiment(work_dir, recipe)
    fine_tuned = build_experiment(work_dir, recipe, teacher_encoder=teacher)
    zero_shot = build_experiment(work_dir, recipe, teacher_encoder=teacher, train_teacher=False)
    silver, labels = experiment.silver, [part.silver["label"].to_numpy() for part in (experiment, fine_tuned, zero_shot)]
    untrained = build_network(other_encoder, zero_shot._build_training_config(TEACHER), recipe.seed, CPU)
    assert labels[2] == pytest.approx(score_pairs(untrained, silver), abs=1e-6)
    assert not any(np.allclose(*pair, rtol=0, atol=1e-5) for pair in combinations(labels, 2))
    assert labels[0] == pytest.approx(score_pairs(experiment.load_or_train(TEACHER), silver), abs=1e-6)
    assert len(silver) == 30
    training_pairs = experiment._build_setup(TrainingVariant("cosine", "gold and silver")).pairs
    assert training_pairs[["first", "second", "label"]].equals(pd.concat([experiment.gold, silver], ignore_index=True))
    changes: list[dict[str, object]] = [{"gold_arguments": 21}, {"bm25_depth": 4}, {"max_silver_pairs": 31}]
    experiments = [experiment, fine_tuned, zero_shot, *(build_experiment(work_dir, recipe, **change) for change in changes)]
    assert len({part.get_cache_key(TEACHER) for part in experiments}) == 6


@pytest.mark.slow
def test_study_reuses_cached_results_and_weights(work_dir: Path, recipe_file: str, tmp_path: Path) -> None:
    def run(name: str) -> pd.DataFrame:
        flags = ["--work-dir", str(work_dir), "-o", str(tmp_path / f"{name}.csv"), "--recipe", recipe_file, "--device", "cpu"]
        assert main(["study", "students", *flags]) == 0
        return pd.read_csv(tmp_path / f"{name}.csv", keep_default_na=False)

    table = run("table")
    variants = [[network.loss or "", network.pairs] for network in VARIANTS]
    assert table[["loss", "training_pairs"]].to_numpy().tolist() == variants
    assert table["n_pairs"].tolist() == [0, 40, 40, 40, 40, 30, 30, 30, 70, 70, 70]
    assert table.loc[table["loss"].isin(STUDENT_LOSSES), "nDCG@10"].nunique() > 5
    shutil.rmtree(work_dir / "students-results")
    weights = read_files(work_dir / "students")
    assert run("again").drop(columns="seconds").equals(table.drop(columns="seconds"))
    assert read_files(work_dir / "students") == weights


def test_fit_saves_the_student_as_a_checkpoint(work_dir: Path, recipe_file: str, tmp_path: Path) -> None:
    output = tmp_path / "sbert"
    assert main(["fit", recipe_file, "--work-dir", str(work_dir), "-o", str(output), "--device", "cpu"]) == 0
    checkpoint, experiment = load_checkpoint(output), build_experiment(work_dir, load_recipe(recipe_file))
    texts = ["topic filler abc", "topicab " * 20, ""]
    ids = [checkpoint.tokeniser.encode_premise(text) for text in texts]
    with torch.inference_mode():
        vectors = torch.cat([checkpoint.network.encode(*pad([premise])) for premise in ids]).numpy()
    student, untrained = (
        encode_texts(experiment.load_or_train(network), texts) for network in (TrainingVariant("cosent", "gold"), UNTRAINED)
    )
    assert vectors == pytest.approx(student, abs=2e-3)  # stored in half precision
    assert vectors != pytest.approx(untrained, abs=2e-3)
    assert "- augmented_sbert.loss: cosent" in (output / "README.md").read_text()
