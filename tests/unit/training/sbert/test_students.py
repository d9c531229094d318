"""Augmented SBERT on arguments: which pairs, what is found in a collection, and the table by command."""

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
from tests.conftest import text_lookup
from training.__main__ import main
from training.data.pair_tables import load_validation_queries
from training.fitting.validation import encoder_cosine_scorer, validate_candidates
from training.sbert.networks import TrainingConfig, build_network, encode_texts, score_pairs, trainable_state
from training.sbert.pairs import gold_pairs, load_arguments, unlabelled_pairs
from training.sbert.students import TEACHER, UNTRAINED, StudentExperiment, Variant
from training.sbert.validation import ConclusionValidator
from training.studies.students import LOSSES, NETWORKS
from training.tasks import load_recipe
from training.tasks.augmented_sbert import AugmentedSBERTSpec

pytestmark = pytest.mark.usefixtures("raise_faults")

LEARNING = TrainingConfig("cosine", 0.003, max_length=40, bfloat16=False)
RECIPE = """ranker = "sbert"
[lengths]
query = 20
premise = 38
[encoder]
name = "tiny"
frozen = 3
learning_rate = 0.003
[training]
epochs = 1
global_batch_size = 16
micro_batch_size = 16
[student]
loss = "cosent"
pairs = "gold"
arguments = 20
silver = 30
"""
CPU = torch.device("cpu")


@pytest.fixture
def mine(write_recipe: Callable[[str], str], encoder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe file."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODERS", encoder.parent)
    return write_recipe(RECIPE)


@pytest.fixture
def tokeniser(encoder: Path) -> WordPieceTokeniser:
    return WordPieceTokeniser.load(encoder, MaxLengths(20, 38))


@pytest.fixture
def train(prepared_work_dir: Path, tokeniser: WordPieceTokeniser) -> pd.DataFrame:
    return load_arguments(prepared_work_dir, "train", tokeniser)


@pytest.fixture
def dev(prepared_work_dir: Path, train: pd.DataFrame, tokeniser: WordPieceTokeniser) -> ConclusionValidator:
    return ConclusionValidator(train, load_arguments(prepared_work_dir, "validation", tokeniser), prepared_work_dir, tokeniser)


def test_arguments_are_as_prepared_with_conclusions_cut_and_read_as_the_ranker_does(
    prepared_work_dir: Path, encoder: Path, tokeniser: WordPieceTokeniser
) -> None:
    model = build_network(encoder, LEARNING, 0, CPU)
    assert isinstance(model, SentenceTransformer)
    for text in ("topic filler abc", "see http://a.b/c topic " + "topicab " * 9, "x" * 120 + " a" * 30, ""):
        cut = tokeniser.truncate(text, 20)
        assert model.tokenizer(cut)["input_ids"][1:-1] == tokeniser._encode(text, 20)
        assert text.startswith(cut)
    tokeniser = WordPieceTokeniser.load(encoder, MaxLengths(8, 38))
    train = load_arguments(prepared_work_dir, "train", tokeniser)
    table = pd.read_parquet(prepared_work_dir / "train.pieces.parquet")
    assert train["docno"].tolist() == table["docno"].tolist()
    assert train["premise"].tolist() == table["premise"].tolist()
    for cut, whole in zip(train["conclusion"], table["conclusion"], strict=True):
        assert tokeniser._encode(cut, 100) == tokeniser.encode_query(whole)
    assert (train["conclusion"] != table["conclusion"]).any()


def test_gold_has_for_each_of_some_conclusions_its_own_premise_and_an_unrelated_one(train: pd.DataFrame) -> None:
    pairs = gold_pairs(train, 50, np.random.default_rng(0))
    assert pairs["label"].tolist() == [1.0] * 50 + [0.0] * 50
    assert pairs["first"].tolist()[:50] == pairs["first"].tolist()[50:]
    by_premise = train.set_index("premise")
    for first, second, label in pairs.itertuples(index=False):
        assert (by_premise.loc[second, "conclusion"] == first) == (label == 1)
    docnos = by_premise.loc[pairs["second"], "docno"].tolist()
    assert len({*docnos[:50]}) == 50
    unrelated = train.set_index("docno")["unrelated_docnos"]
    assert docnos[50:] == [unrelated[docno][0] for docno in docnos[:50]]
    assert gold_pairs(train, 50, np.random.default_rng(0)).equals(pairs)
    assert not gold_pairs(train, 50, np.random.default_rng(1)).equals(pairs)
    assert len(gold_pairs(train, 10**6, np.random.default_rng(0))) == 2 * len(train)


def test_the_teacher_is_the_same_whether_it_or_its_labels_are_asked_for_first(
    mine: str, prepared_work_dir: Path, tmp_path: Path
) -> None:
    recipe = load_recipe(mine)
    assert isinstance(recipe.task, AugmentedSBERTSpec)
    recipe, pairs = replace(recipe, encoder=replace(recipe.encoder, bfloat16=True)), replace(recipe.task, arguments=200)
    one, other = (
        StudentExperiment(shutil.copytree(prepared_work_dir, tmp_path / name), recipe, pairs, CPU)
        for name in ("teacher first", "labels first")
    )
    learned = trainable_state(one.load_or_train(TEACHER))
    labels = other.n_silver["label"]
    assert np.ptp(labels) > 0
    assert trainable_state(other.load_or_train(TEACHER)) == learned
    assert one.n_silver["label"].equals(labels)


def test_silver_pairs_are_the_best_premises_of_other_conclusions(train: pd.DataFrame, tmp_path: Path) -> None:
    everything = unlabelled_pairs(train, train.iloc[:0].assign(first="", second=""), 3, ArtifactStore(tmp_path / "all", {}))
    shuffled = train.sample(frac=1, random_state=1)
    again = unlabelled_pairs(shuffled, shuffled.iloc[:0].assign(first="", second=""), 3, ArtifactStore(tmp_path / "again", {}))
    assert {*again.itertuples(index=False)} == {*everything.itertuples(index=False)}
    ordered = train.sort_values("docno", ignore_index=True)
    kept = ArtifactStore(tmp_path / "index", {})
    index = load_or_build_term_index(ordered["docno"].tolist(), text_lookup(ordered), TermSettings(fields="premise"), kept)
    for conclusion, rows in list(ordered.groupby("conclusion").indices.items())[::7]:
        query, values = build_query(index.analyse_query(conclusion)), np.zeros(len(ordered))
        statistics = index.statistics(list(query))
        for number, (term, weight) in enumerate(query.items()):
            documents, tf = index.postings(term)
            values[documents] += BM25().score_term(tf, index.lengths[documents], weight, statistics, number)
        values[rows] = -np.inf
        best = np.argsort(-values, kind="stable")[:3]
        found = everything.loc[everything["first"] == conclusion, "second"]
        assert found.tolist() == ordered["premise"].iloc[best].tolist()

    labelled = everything.iloc[::2].assign(label=1.0)
    assert unlabelled_pairs(train, labelled, 3, ArtifactStore(tmp_path / "rest", {})).equals(
        everything.iloc[1::2].reset_index(drop=True)
    )


def test_what_is_found_in_the_collection_is_what_brute_force_and_fit_find(
    prepared_work_dir: Path, train: pd.DataFrame, dev: ConclusionValidator, encoder: Path, tokeniser: WordPieceTokeniser
) -> None:
    model = build_network(encoder, LEARNING, 0, CPU)
    assert isinstance(model, SentenceTransformer)
    validation = load_arguments(prepared_work_dir, "validation", tokeniser)
    collection = pd.concat([train, validation], ignore_index=True)
    groups = validation.groupby("normalised_conclusion", sort=False)
    titles = groups["conclusion"].first()
    cosines = encode_texts(model, titles.tolist()) @ encode_texts(model, collection["premise"].tolist()).T
    recall, reciprocal, gain = [], [], []
    for (_, own), row in zip(groups, cosines, strict=True):
        order = sorted(range(len(row)), key=lambda number: (-row[number], collection["docno"][number]))
        hits = collection["docno"].iloc[order].isin(own["docno"]).to_numpy()
        discount = 1 / np.log2(np.arange(2, 12))
        recall.append(hits[:100].sum() / 5)
        reciprocal.append(1 / (hits[:10].argmax() + 1) if hits[:10].any() else 0)
        gain.append((hits[:10] * discount).sum() / discount[:5].sum())
    expected = {"recall@100": recall, "MRR@10": reciprocal, "nDCG@10": gain}
    found = dev.retrieval_metrics(model, False)
    assert found == pytest.approx({name: 100 * np.mean(values) for name, values in expected.items()}, abs=1e-3)
    assert 0 < found["nDCG@10"] < 100

    queries = load_validation_queries(prepared_work_dir, "pieces", tokeniser)  # and validation is that of fit
    untrained = PretrainedEncoder.__new__(PretrainedEncoder)
    untrained.folder = encoder
    expected = validate_candidates(queries, np.arange(25), encoder_cosine_scorer(untrained, CPU))[0]["MAP@20"]
    assert dev.map_at_20(model, False) == pytest.approx(expected, abs=0.01)


def test_keys_and_labels_are_of_the_teacher_and_the_pairs_that_a_recipe_tells(work_dir: Path, mine: str, another: Path) -> None:
    recipe = load_recipe(mine)
    task = recipe.task
    assert isinstance(task, AugmentedSBERTSpec)
    settings = [task, *(replace(task, **{name: getattr(task, name) + 1}) for name in ("arguments", "k", "silver"))]
    assert len({repr(StudentExperiment(work_dir, recipe, one, CPU).cache_key(TEACHER)) for one in settings}) == 4
    changes = {"own": {}, "another": {"teacher": str(another)}, "as it comes": {"teacher": str(another), "taught": False}}
    by = {name: StudentExperiment(work_dir, recipe, replace(task, **change), CPU) for name, change in changes.items()}
    assert len({repr(one.cache_key(TEACHER)) for one in by.values()}) == 3
    assert by["another"].gold.equals(by["own"].gold)
    labels = {name: one.n_silver["label"].to_numpy() for name, one in by.items()}
    assert not np.allclose(labels["own"], labels["another"], rtol=0, atol=1e-5)
    untaught = build_network(another, by["as it comes"]._training_config(TEACHER), recipe.seed, CPU)
    assert labels["as it comes"] == pytest.approx(score_pairs(untaught, by["own"].n_silver), abs=1e-6)
    assert not np.allclose(labels["another"], labels["as it comes"], rtol=0, atol=1e-5)

    own, silver = by["own"], by["own"].n_silver
    assert len(silver) == 30
    assert silver["label"].to_numpy() == pytest.approx(score_pairs(own.load_or_train(TEACHER), silver), abs=1e-6)
    assert silver["label"].between(0, 1).all()
    assert silver["label"].nunique() > 5
    both = own._training_run(Variant("cosine", "gold and silver")).pairs
    assert both[["first", "second", "label"]].equals(pd.concat([own.gold, silver], ignore_index=True))
    assert len(own._training_run(Variant("cosine", "gold")).pairs) == 40


def test_the_table_and_that_weights_are_kept(
    work_dir: Path, mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(name: str) -> int:
        return main(
            [
                "study",
                "students",
                "--work",
                str(work_dir),
                "-o",
                str(tmp_path / f"{name}.csv"),
                "--recipe",
                mine,
                "--device",
                "cpu",
            ]
        )

    assert run("whole") == 0
    assert "multiple_negatives" in capfd.readouterr().out
    found = pd.read_csv(tmp_path / "whole.csv", keep_default_na=False)
    assert found[["loss", "training_pairs"]].to_numpy().tolist() == [
        [network.loss or "", network.pairs] for network in NETWORKS
    ]
    assert found["n_pairs"].tolist() == [0, 40, 40, 40, 40, 30, 30, 30, 70, 70, 70]
    teacher = found.iloc[1]
    assert teacher[["recall@100", "MRR@10", "nDCG@10"]].tolist() == [""] * 3
    assert found.loc[found["loss"].isin(LOSSES), "nDCG@10"].nunique() > 5
    before = (tmp_path / "whole.csv").read_bytes()
    assert run("whole") == 0
    assert (tmp_path / "whole.csv").read_bytes() == before  # seconds too: nothing was made again

    shutil.rmtree(work_dir / "students-results")
    monkeypatch.setattr(StudentExperiment, "_train", None)  # weights are kept
    assert run("again") == 0
    again = pd.read_csv(tmp_path / "again.csv", keep_default_na=False)
    assert again.drop(columns="seconds").equals(found.drop(columns="seconds"))


def test_fit_makes_the_student_a_checkpoint(work_dir: Path, mine: str, tmp_path: Path) -> None:
    output = tmp_path / "sbert"
    assert main(["fit", mine, "--work", str(work_dir), "-o", str(output), "--device", "cpu"]) == 0
    opened = load_checkpoint(output)
    recipe = load_recipe(mine)
    assert isinstance(recipe.task, AugmentedSBERTSpec)
    student, untrained = (
        StudentExperiment(work_dir, recipe, recipe.task, CPU).load_or_train(one)
        for one in (Variant("cosent", "gold"), UNTRAINED)
    )
    texts = ["topic filler abc", "topicab " * 20, ""]
    ids = [opened.tokeniser.encode_premise(text) for text in texts]
    with torch.inference_mode():
        ours = torch.cat([opened.ranker.represent(*pad([one])) for one in ids]).numpy()
    assert ours == pytest.approx(encode_texts(student, texts), abs=2e-3)  # stored in half precision
    assert ours != pytest.approx(encode_texts(untrained, texts), abs=0.002)
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["validation"]["MAP@20"] != metrics["encoder cosine"]["MAP@20"]
    card = (output / "README.md").read_text()
    assert "trained with `python -m training fit" in card
    assert "- student.loss: cosent" in card
    stored = safetensors.torch.load_file(output / "model.safetensors")
    assert {name.split(".")[4] for name in stored} == {"3"}  # of four blocks the one that learns


def test_recipes_that_are_refused_and_nothing_prepared(
    work_dir: Path, mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(mine).write_text(RECIPE.replace("epochs = 1", "epochs = 0"))
    assert main(["fit", mine, "--work", str(work_dir)]) == 2
    assert "training.epochs is 0 but the network has trainable parameters" in capsys.readouterr().err
    Path(mine).write_text(RECIPE[: RECIPE.index("[student]")])
    assert main(["study", "students", "--work", str(work_dir), "--recipe", mine, "-o", str(tmp_path / "none.csv")]) == 2
    assert "recipe of sbert: no [student] table; choose a recipe that has one" in capsys.readouterr().err
    Path(mine).write_text(RECIPE)
    assert (
        main(["study", "students", "--work", str(work_dir / "nowhere"), "--recipe", mine, "-o", str(tmp_path / "none.csv")])
        == 3
    )
