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

from submission.inference.batching import pad
from submission.inference.pretrained import Pretrained
from submission.inference.ranker_checkpoint import open_checkpoint
from submission.retrieval.lexical import BM25, query_of
from submission.retrieval.term_index import Settings as TermSettings
from submission.retrieval.term_index import term_index
from submission.storage.artifact_store import Kept
from submission.text.tokenisers import Lengths, PieceTokeniser
from tests.conftest import texts_in
from training.__main__ import main
from training.data.pair_tables import load_validation
from training.fitting.validation import by_cosine, validate
from training.sbert.networks import Training, built, scores, trained, vectors
from training.sbert.pairs import arguments, gold, sampled
from training.sbert.students import TEACHER, UNTRAINED, Network, Students
from training.sbert.validation import Dev
from training.studies.students import LOSSES, NETWORKS
from training.tasks import read_recipe
from training.tasks.augmented_sbert import Student

pytestmark = pytest.mark.usefixtures("no_network")

LEARNING = Training("cosine", 0.003, pieces=40, bfloat16=False)
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
def mine(recipe: Callable[[str], str], encoder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe file."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODERS", encoder.parent)
    return recipe(RECIPE)


@pytest.fixture
def tokeniser(encoder: Path) -> PieceTokeniser:
    return PieceTokeniser.load(encoder, Lengths(20, 38))


@pytest.fixture
def train(prepared: Path, tokeniser: PieceTokeniser) -> pd.DataFrame:
    return arguments(prepared, "train", tokeniser)


@pytest.fixture
def dev(prepared: Path, train: pd.DataFrame, tokeniser: PieceTokeniser) -> Dev:
    return Dev(train, arguments(prepared, "validation", tokeniser), prepared, tokeniser)


def test_arguments_are_as_prepared_with_conclusions_cut_and_read_as_the_ranker_does(
    prepared: Path, encoder: Path, tokeniser: PieceTokeniser
) -> None:
    model = built(encoder, LEARNING, 0, CPU)
    assert isinstance(model, SentenceTransformer)
    for text in ("topic filler abc", "see http://a.b/c topic " + "topicab " * 9, "x" * 120 + " a" * 30, ""):
        cut = tokeniser.cut(text, 20)
        assert model.tokenizer(cut)["input_ids"][1:-1] == tokeniser._ids(text, 20)
        assert text.startswith(cut)
    tokeniser = PieceTokeniser.load(encoder, Lengths(8, 38))
    train = arguments(prepared, "train", tokeniser)
    table = pd.read_parquet(prepared / "train.pieces.parquet")
    assert train["docno"].tolist() == table["docno"].tolist()
    assert train["premise"].tolist() == table["premise"].tolist()
    for cut, whole in zip(train["conclusion"], table["conclusion"], strict=True):
        assert tokeniser._ids(cut, 100) == tokeniser.query(whole)
    assert (train["conclusion"] != table["conclusion"]).any()


def test_gold_has_for_each_of_some_conclusions_its_own_premise_and_an_unrelated_one(train: pd.DataFrame) -> None:
    pairs = gold(train, 50, np.random.default_rng(0))
    assert pairs["label"].tolist() == [1.0] * 50 + [0.0] * 50
    assert pairs["first"].tolist()[:50] == pairs["first"].tolist()[50:]
    by_premise = train.set_index("premise")
    for first, second, label in pairs.itertuples(index=False):
        assert (by_premise.loc[second, "conclusion"] == first) == (label == 1)
    docnos = by_premise.loc[pairs["second"], "docno"].tolist()
    assert len({*docnos[:50]}) == 50
    unrelated = train.set_index("docno")["unrelated_docnos"]
    assert docnos[50:] == [unrelated[docno][0] for docno in docnos[:50]]
    assert gold(train, 50, np.random.default_rng(0)).equals(pairs)
    assert not gold(train, 50, np.random.default_rng(1)).equals(pairs)
    assert len(gold(train, 10**6, np.random.default_rng(0))) == 2 * len(train)


def test_the_teacher_is_the_same_whether_it_or_its_labels_are_asked_for_first(
    mine: str, prepared: Path, tmp_path: Path
) -> None:
    recipe = read_recipe(mine)
    assert isinstance(recipe.task, Student)
    recipe, pairs = replace(recipe, encoder=replace(recipe.encoder, bfloat16=True)), replace(recipe.task, arguments=200)
    one, other = (
        Students(shutil.copytree(prepared, tmp_path / name), recipe, pairs, CPU) for name in ("teacher first", "labels first")
    )
    learned = trained(one.model(TEACHER))
    labels = other.silver["label"]
    assert np.ptp(labels) > 0
    assert trained(other.model(TEACHER)) == learned
    assert one.silver["label"].equals(labels)


def test_silver_pairs_are_the_best_premises_of_other_conclusions(train: pd.DataFrame, tmp_path: Path) -> None:
    everything = sampled(train, train.iloc[:0].assign(first="", second=""), 3, Kept(tmp_path / "all", {}))
    shuffled = train.sample(frac=1, random_state=1)
    again = sampled(shuffled, shuffled.iloc[:0].assign(first="", second=""), 3, Kept(tmp_path / "again", {}))
    assert {*again.itertuples(index=False)} == {*everything.itertuples(index=False)}
    ordered = train.sort_values("docno", ignore_index=True)
    kept = Kept(tmp_path / "index", {})
    index = term_index(ordered["docno"].tolist(), texts_in(ordered), TermSettings(fields="premise"), kept)
    for conclusion, rows in list(ordered.groupby("conclusion").indices.items())[::7]:
        query, values = query_of(index.read(conclusion)), np.zeros(len(ordered))
        statistics = index.statistics(list(query))
        for number, (term, weight) in enumerate(query.items()):
            documents, tf = index.postings(term)
            values[documents] += BM25().added(tf, index.lengths[documents], weight, statistics, number)
        values[rows] = -np.inf
        best = np.argsort(-values, kind="stable")[:3]
        found = everything.loc[everything["first"] == conclusion, "second"]
        assert found.tolist() == ordered["premise"].iloc[best].tolist()

    labelled = everything.iloc[::2].assign(label=1.0)
    assert sampled(train, labelled, 3, Kept(tmp_path / "rest", {})).equals(everything.iloc[1::2].reset_index(drop=True))


def test_what_is_found_in_the_collection_is_what_brute_force_and_fit_find(
    prepared: Path, train: pd.DataFrame, dev: Dev, encoder: Path, tokeniser: PieceTokeniser
) -> None:
    model = built(encoder, LEARNING, 0, CPU)
    assert isinstance(model, SentenceTransformer)
    validation = arguments(prepared, "validation", tokeniser)
    collection = pd.concat([train, validation], ignore_index=True)
    groups = validation.groupby("normalised_conclusion", sort=False)
    titles = groups["conclusion"].first()
    cosines = vectors(model, titles.tolist()) @ vectors(model, collection["premise"].tolist()).T
    recall, reciprocal, gain = [], [], []
    for (_, own), row in zip(groups, cosines, strict=True):
        order = sorted(range(len(row)), key=lambda number: (-row[number], collection["docno"][number]))
        hits = collection["docno"].iloc[order].isin(own["docno"]).to_numpy()
        discount = 1 / np.log2(np.arange(2, 12))
        recall.append(hits[:100].sum() / 5)
        reciprocal.append(1 / (hits[:10].argmax() + 1) if hits[:10].any() else 0)
        gain.append((hits[:10] * discount).sum() / discount[:5].sum())
    expected = {"recall@100": recall, "MRR@10": reciprocal, "nDCG@10": gain}
    found = dev.found(model, False)
    assert found == pytest.approx({name: 100 * np.mean(values) for name, values in expected.items()}, abs=1e-3)
    assert 0 < found["nDCG@10"] < 100

    queries = load_validation(prepared, "pieces", tokeniser)  # and validation is that of fit
    untrained = Pretrained.__new__(Pretrained)
    untrained.folder = encoder
    expected = validate(queries, np.arange(25), by_cosine(untrained, CPU))[0]["MAP@20"]
    assert dev.validated(model, False) == pytest.approx(expected, abs=0.01)


def test_keys_and_labels_are_of_the_teacher_and_the_pairs_that_a_recipe_tells(work: Path, mine: str, another: Path) -> None:
    recipe = read_recipe(mine)
    task = recipe.task
    assert isinstance(task, Student)
    settings = [task, *(replace(task, **{name: getattr(task, name) + 1}) for name in ("arguments", "k", "silver"))]
    assert len({repr(Students(work, recipe, one, CPU).key(TEACHER)) for one in settings}) == 4
    changes = {"own": {}, "another": {"teacher": str(another)}, "as it comes": {"teacher": str(another), "taught": False}}
    by = {name: Students(work, recipe, replace(task, **change), CPU) for name, change in changes.items()}
    assert len({repr(one.key(TEACHER)) for one in by.values()}) == 3
    assert by["another"].gold.equals(by["own"].gold)
    labels = {name: one.silver["label"].to_numpy() for name, one in by.items()}
    assert not np.allclose(labels["own"], labels["another"], rtol=0, atol=1e-5)
    untaught = built(another, by["as it comes"]._training(TEACHER), recipe.seed, CPU)
    assert labels["as it comes"] == pytest.approx(scores(untaught, by["own"].silver), abs=1e-6)
    assert not np.allclose(labels["another"], labels["as it comes"], rtol=0, atol=1e-5)

    own, silver = by["own"], by["own"].silver
    assert len(silver) == 30
    assert silver["label"].to_numpy() == pytest.approx(scores(own.model(TEACHER), silver), abs=1e-6)
    assert silver["label"].between(0, 1).all()
    assert silver["label"].nunique() > 5
    both = own._run(Network("cosine", "gold and silver")).pairs
    assert both[["first", "second", "label"]].equals(pd.concat([own.gold, silver], ignore_index=True))
    assert len(own._run(Network("cosine", "gold")).pairs) == 40


def test_the_table_and_that_weights_are_kept(
    work: Path, mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(name: str) -> int:
        return main(
            ["study", "students", "--work", str(work), "-o", str(tmp_path / f"{name}.csv"), "--recipe", mine, "--device", "cpu"]
        )

    assert run("whole") == 0
    assert "multiple_negatives" in capfd.readouterr().out
    found = pd.read_csv(tmp_path / "whole.csv", keep_default_na=False)
    assert found[["loss", "pairs"]].to_numpy().tolist() == [[network.loss or "", network.pairs] for network in NETWORKS]
    assert found["trained on"].tolist() == [0, 40, 40, 40, 40, 30, 30, 30, 70, 70, 70]
    teacher = found.iloc[1]
    assert teacher[["recall@100", "MRR@10", "nDCG@10"]].tolist() == [""] * 3
    assert found.loc[found["loss"].isin(LOSSES), "nDCG@10"].nunique() > 5
    before = (tmp_path / "whole.csv").read_bytes()
    assert run("whole") == 0
    assert (tmp_path / "whole.csv").read_bytes() == before  # seconds too: nothing was made again

    shutil.rmtree(work / "students-results")
    monkeypatch.setattr(Students, "_learned", None)  # weights are kept
    assert run("again") == 0
    again = pd.read_csv(tmp_path / "again.csv", keep_default_na=False)
    assert again.drop(columns="seconds").equals(found.drop(columns="seconds"))


def test_fit_makes_the_student_a_checkpoint(work: Path, mine: str, tmp_path: Path) -> None:
    output = tmp_path / "sbert"
    assert main(["fit", mine, "--work", str(work), "-o", str(output), "--device", "cpu"]) == 0
    opened = open_checkpoint(output)
    recipe = read_recipe(mine)
    assert isinstance(recipe.task, Student)
    student, untrained = (Students(work, recipe, recipe.task, CPU).model(one) for one in (Network("cosent", "gold"), UNTRAINED))
    texts = ["topic filler abc", "topicab " * 20, ""]
    ids = [opened.tokeniser.premise(text) for text in texts]
    with torch.inference_mode():
        ours = torch.cat([opened.ranker.represent(*pad([one])) for one in ids]).numpy()
    assert ours == pytest.approx(vectors(student, texts), abs=2e-3)  # stored in half precision
    assert ours != pytest.approx(vectors(untrained, texts), abs=0.002)
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["validation"]["MAP@20"] != metrics["cosine of the encoder"]["MAP@20"]
    card = (output / "README.md").read_text()
    assert "trained with `python -m training fit" in card
    assert "- student.loss: cosent" in card
    stored = safetensors.torch.load_file(output / "model.safetensors")
    assert {name.split(".")[4] for name in stored} == {"3"}  # of four blocks the one that learns


def test_recipes_that_are_refused_and_nothing_prepared(
    work: Path, mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(mine).write_text(RECIPE.replace("epochs = 1", "epochs = 0"))
    assert main(["fit", mine, "--work", str(work)]) == 2
    assert "training.epochs is 0 but the network has trainable parameters" in capsys.readouterr().err
    Path(mine).write_text(RECIPE[: RECIPE.index("[student]")])
    assert main(["study", "students", "--work", str(work), "--recipe", mine, "-o", str(tmp_path / "none.csv")]) == 2
    assert "recipe of sbert: no [student] table; choose a recipe that has one" in capsys.readouterr().err
    Path(mine).write_text(RECIPE)
    assert main(["study", "students", "--work", str(work / "nowhere"), "--recipe", mine, "-o", str(tmp_path / "none.csv")]) == 3
