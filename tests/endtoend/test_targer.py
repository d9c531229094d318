"""Tests of a tagger, from tagged documents to a run: training, reduction of documents to their components, and search."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from msgspec.structs import replace

from submission.explain import explain
from submission.inference.enricher_checkpoint import EnricherCheckpoint, load_enricher
from submission.inference.enrichment import enrich_texts
from submission.models.enrichers.targer import TARGER
from submission.systems.catalogue import SYSTEMS
from submission.systems.lexical import LexicalStage
from tests.conftest import count_colours, write_targer
from tests.endtoend.conftest import AssertFails, Execute
from tests.unit.training.data.tagging_files import write_tagged
from training.__main__ import main
from training.fitting.fit import save_network
from training.fitting.initialisation import build_network
from training.fitting.language_model import LanguageModelCheckpoint
from training.studies.document_lengths import COLUMNS
from training.tasks import load_recipe

RECIPE = """enricher = "targer"
max_terms = 40
[network]
dimensions = 6
letter_dimensions = 4
filters = 3
hidden = 12
dropout = 0.1
longest = 12
[tagging]
datasets = ["essays", "webd"]
vectors = "word2vec"
init_from = "words"
[training]
epochs = 8
validations_per_epoch = 1
learning_rate = 0.02
batch_size = 6
micro_batch_size = 3
"""
TAGGING = RECIPE[RECIPE.index("[tagging]") : RECIPE.index("[training]")]
LANGUAGE_MODEL = '[language_model]\nvectors = "word2vec"\nnegative_samples = 20\n'
LANGUAGE_RECIPE = RECIPE.replace(TAGGING, LANGUAGE_MODEL).replace("longest = 12", "longest = 30")


@pytest.fixture(scope="module")
def tables(prepared_work_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare tagged documents and word vectors, write the recipes, and train the language model."""
    directory = tmp_path_factory.mktemp("tagging")
    work = Path(shutil.copytree(prepared_work_dir, directory / "work"))
    assert main(["prepare", "tags", "-i", str(write_tagged(directory / "data")), "--work-dir", str(work)]) == 0
    flags = ["--dimensions", "6", "--minimum-frequency", "2", "--epochs", "1", "--surface-tokens", "word2vec"]
    assert main(["prepare", "vectors", "--work-dir", str(work), *flags]) == 0
    (directory / "mine.toml").write_text(RECIPE)
    (directory / "words.toml").write_text(LANGUAGE_RECIPE)
    assert main(["fit", str(directory / "words.toml"), "--work-dir", str(work), "--device", "cpu"]) == 0
    return work


@pytest.fixture(scope="module")
def checkpoint(tables: Path) -> Path:
    """Train the tagger."""
    assert main(["fit", str(tables.parent / "mine.toml"), "--work-dir", str(tables), "--device", "cpu"]) == 0
    return tables / "checkpoints" / "mine"


def test_tagger_learns_and_reports_its_sources(tables: Path, checkpoint: Path) -> None:
    metrics, provenance = (json.loads((checkpoint / name).read_text()) for name in ("metrics.json", "provenance.json"))
    assert (metrics["documents"], metrics["last epoch"]) == (16, 8)  # a fifth of the forty documents in each data set
    assert metrics["log"][-1]["loss"] < metrics["log"][0]["loss"] / 4
    assert metrics["validation"]["F1"] > 90
    assert metrics["validation"] == {name: metrics["log"][-1][name] for name in metrics["validation"]}
    assert metrics["most frequent tag"] == {"precision": 0.0, "recall": 0.0, "F1": 0.0, "accuracy": pytest.approx(40, abs=20)}
    assert 50 < metrics["most frequent tag per word"]["accuracy"] < 80
    card = (checkpoint / "README.md").read_text()
    assert "Trained on persuasive essays (Stab and Gurevych; TARGER's files, MIT) and web discourse" in card
    assert "MIT); word vectors and language model: args.me arguments (Webis, CC BY 4.0). Hashes of the source files" in card
    assert set(provenance["training_data"]["input"]) == {"essays.parquet", "webd.parquet"}
    assert (provenance["vectors"]["surface_method"], provenance["init_from"]["name"]) == ("word2vec", "words")
    assert count_colours((tables / "fit" / "mine" / "curve.png").read_bytes()) > 200


def test_trained_tagger_annotates_components(checkpoint: Path) -> None:
    enricher = load_enricher(checkpoint)
    assert isinstance(enricher.network, TARGER)
    assert enricher.network.config.tags[:3] == ("O", "B-P", "I-P")
    assert (len(enricher.network.config.tags), enricher.network.get_vocabulary_size()) == (13, 42)
    [words] = enricher.network.annotate(enricher.tokeniser.split("pa Because pb pc . so pd ."))
    assert [word.label for word in words] == ["O", "B-P", "I-P", "I-P", "O", "B-C", "I-C", "O"]
    assert enricher.network.compute_term_frequencies([words]) == {"Because": 1, "pb": 1, "pc": 1, "so": 1, "pd": 1}


def test_tagger_initialises_from_the_language_model(tables: Path) -> None:
    checkpoint = tables / "checkpoints" / "words"
    metrics, card = json.loads((checkpoint / "metrics.json").read_text()), (checkpoint / "README.md").read_text()
    assert metrics["log"][-1]["loss"] < metrics["log"][0]["loss"]
    assert metrics["validation"]["both"] > metrics["most frequent word"]["both"] > 0
    assert metrics["best epoch"] == max(metrics["log"], key=lambda row: row["both"])["epoch"]
    assert "Trained on args.me arguments (Webis, CC BY 4.0), unlabelled. Hashes of the source files" in card
    recipe, vectors = load_recipe(str(tables.parent / "mine.toml")), tables / "vectors-word2vec"
    untransferred = replace(recipe, task=replace(recipe.task, init_from=""))
    pretrained, random_weights = (
        build_network(spec, vectors, tables / "checkpoints").network.state_dict() for spec in (recipe, untransferred)
    )
    learned = LanguageModelCheckpoint.load(checkpoint).network.state_dict()
    same = {name for name in pretrained if name in learned and torch.equal(pretrained[name], learned[name])}
    assert same == {name for name in pretrained if not name.startswith(("emission.", "crf."))}
    reset = {name for name in pretrained if torch.equal(pretrained[name], random_weights[name])}
    assert reset == {"emission.weight", "emission.bias", "crf.transitions"}


INVALID_RECIPES = {
    "another data set": ('"essays", "webd"', '"ibm"', 2, "tagging.datasets"),
    "a repeated data set": ('"essays"', '"webd"', 2, "expected essays, webd or both"),
    "other vectors": ('"word2vec"', '"glove"', 2, "tagging.vectors"),
    "missing vectors": ('"word2vec"', '"fasttext"', 3, "prepare vectors --work-dir WORK"),
    "other dimensions": ("\ndimensions = 6", "\ndimensions = 7", 2, "network.dimensions is 7, but the word vectors have 6"),
    "tags of the data": ("dropout = 0.1", "tags = ['O']", 2, "unknown key network.tags"),
    "a large window": ("longest = 12", "window = 30", 2, "cannot build targer from [network]"),
    "no task": (TAGGING, "", 2, "targer cannot be trained on pairs"),
    "two tasks": (TAGGING, LANGUAGE_MODEL + TAGGING, 2, "at most one task table"),
    "a missing language model": ('"words"', '"speech"', 4, "speech: checkpoint not found"),
    "other layers": ("hidden = 12", "hidden = 13", 2, "tagging.init_from: 'words' has other layer sizes; use its"),
    "another vocabulary": ("max_terms = 40", "max_terms = 39", 2, "tagging.init_from: 'words' has another vocabulary"),
    "an encoder": ("[tagging]", "[encoder]\nfrozen_layers = 3\n[tagging]", 2, "targer has no pretrained encoder"),
    "a margin": ("[training]", "[training]\nmargin = 2.0", 2, "training.margin applies to [pairs] only"),
}


@pytest.mark.parametrize("name", INVALID_RECIPES)
def test_invalid_tagging_recipes_fail(name: str, tables: Path, tmp_path: Path, assert_fails: AssertFails) -> None:
    old, new, code, message = INVALID_RECIPES[name]
    (tmp_path / "mine.toml").write_text(RECIPE.replace(old, new))
    output = tables / "checkpoints" / "refused"
    assert_fails(code, message, "fit", tmp_path / "mine.toml", "--work-dir", tables, "-o", output, "--device", "cpu")


def test_vectors_of_another_method_fail(tables: Path, tmp_path: Path, assert_fails: AssertFails) -> None:
    message = "contains vectors of normalised words, but the recipe needs surface tokens (word2vec)"
    command = ["fit", tables.parent / "mine.toml", "--work-dir", tables, "-o", tmp_path / "refused"]
    assert_fails(2, message, *command, "--vectors", tables / "vectors", "--device", "cpu")


def force_tag(checkpoints: Path, tag: str) -> None:
    """Make the tagger assign the same tag to all words."""
    enricher, provenance = load_enricher(checkpoints / "targer_essays"), {"training_data": {"input": {}}}
    network = enricher.network
    assert isinstance(network, TARGER)
    with torch.no_grad():
        network.emission.bias[1 + network.config.tags.index(tag)] += 1e4
    save_network(checkpoints / "targer_essays", EnricherCheckpoint, network, enricher.tokeniser, {}, provenance, "# test\n")


STAGE = SYSTEMS["targer_dirichlet"].stage
assert isinstance(STAGE, LexicalStage)


def test_index_contains_only_kept_components(corpus_with_topics: Path, checkpoints_copy: Path, execute: Execute) -> None:
    file = corpus_with_topics / "args-me.json"
    content = json.loads(file.read_text())
    content["arguments"][0]["premises"][0]["text"] += " Don't: the zoo's “wall-to-wall” U.S. cages cost 1,000 a\u00a0year!"
    file.write_text(json.dumps(content))
    filtered = STAGE.get_index(execute())
    force_tag(checkpoints_copy, "I-P")  # all words are kept
    execution = execute()
    plain, reduced = LexicalStage("dirichlet").get_index(execution), STAGE.get_index(execution)
    assert {"dont", "don", "zoos", "wall", "1", "000"} & set(plain.terms) == {"zoos", "wall", "1", "000"}
    assert reduced.terms == plain.terms
    assert reduced.lengths.tolist() == plain.lengths.tolist()
    for row in range(len(plain.lengths)):
        for actual, expected in zip(reduced.by_document.get_row(row), plain.by_document.get_row(row), strict=True):
            assert actual.tolist() == expected.tolist()
    assert execution.get_ranking(STAGE)["docno"].tolist() == execution.get_ranking(LexicalStage("dirichlet"))["docno"].tolist()
    assert 0 < filtered.token_count < plain.token_count
    assert len(filtered.lengths) == len(plain.lengths) == 575


def test_explain_marks_claims_and_premises(corpus_with_topics: Path, all_checkpoints_dir: Path, execute: Execute) -> None:
    execution = execute(qid="1")
    plain, coloured = (explain(SYSTEMS["targer_dirichlet"], "a0-0", execution, colour) for colour in (False, True))
    [marked] = re.findall(r"^claims and premises:\n(.+)$", plain, re.MULTILINE)
    argument = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"][0]
    text = f"{argument['conclusion']} {argument['premises'][0]['text']}"
    assert re.sub(r"\[(claim|premise): |\]", "", marked) == text
    enricher = load_enricher(all_checkpoints_dir / "targer_essays")
    tagged = [word for passage in enricher.tokeniser.split(text) for word in enricher.network.annotate([passage])[0]]
    for part in ("claim", "premise"):
        words = " ".join(re.findall(rf"\[{part}: ([^]]+)\]", marked)).split()
        assert words == [word.surface for word in tagged if enricher.network.get_component_type(word) == part] != []
    assert "\x1b" not in plain
    assert coloured.replace("\x1b[1;34m", "[claim: ").replace("\x1b[32m", "[premise: ").replace("\x1b[0m", "]") == plain


@pytest.mark.slow
def test_document_lengths_count_kept_components(
    corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path, execute: Execute, assert_fails: AssertFails
) -> None:
    write_targer(checkpoints_copy, "targer_webd", seed=3)
    paths = ["-i", corpus_with_topics, "--work-dir", tmp_path / "lengths", "--checkpoints", checkpoints_copy]
    flags = [*map(str, paths), "--device", "cpu", "-o", str(tmp_path / "lengths.csv")]
    command = ["study", "lengths", "targer_essays", "targer_webd", *flags]
    assert main(command) == 0
    table = pd.read_csv(tmp_path / "lengths.csv").set_index("corpus")
    assert table.index.tolist() == ["args.me", "targer_essays", "targer_webd"]
    assert (table.loc["args.me", "published_mean"], table.loc["targer_essays", "published_median"]) == (317, 71)
    store = execute().documents
    documents = store.read_texts(store.searchable_docnos)
    texts = (documents["conclusion"] + " " + documents["premise"]).tolist()
    assert table.loc["args.me", "mean"] == pytest.approx(np.mean([len(text.split()) for text in texts]), abs=0.01)
    for name in table.index[1:]:
        enricher = load_enricher(checkpoints_copy / name)
        sizes = np.array([sum(enrich_texts([text], enricher, torch.device("cpu"))[0].values()) for text in texts])
        expected = [sizes.max(), sizes.min(), sizes.mean(), np.median(sizes), sizes.std(), 100 * (sizes == 0).mean()]
        assert table.loc[name, [*COLUMNS, "empty_percent"]].tolist() == pytest.approx(expected, abs=0.01)
        assert 0 < sizes.mean() < table.loc["args.me", "mean"]
    assert table.loc["targer_essays", "mean"] != table.loc["targer_webd", "mean"]
    assert_fails(4, "none: checkpoint not found", *command[:2], "none", *command[3:])
