"""Tests of TARGER and DeepCT: data, training, enriched indexes and explanations."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from msgspec.structs import replace

from aragorn.engine import CPU
from aragorn.explain import format_scores
from aragorn.inference import enrichment
from aragorn.inference.checkpoint import TaggerCheckpoint, load_tagger
from aragorn.inference.enrichment import enrich_texts
from aragorn.systems.catalogue import SYSTEMS
from aragorn.systems.lexical import LexicalStage
from aragorn_training.__main__ import main
from aragorn_training.fitting.fit import save_network
from aragorn_training.fitting.initialisation import build_network
from aragorn_training.studies.lengths import COLUMNS
from aragorn_training.tasks import load_recipe
from aragorn_training.tasks.language_model import LanguageModelCheckpoint
from tests.conftest import UNTRAINED, argv, assert_runs, format_run_lines, make_argument
from tests.unit.training.conftest import write_tagged

pytestmark = pytest.mark.usefixtures("block_network", "without_plots")

TARGER_RECIPE = """tagger = "targer"
max_terms = 40
[network]
dimensions = 6
character_dimensions = 4
filters = 3
hidden = 12
dropout = 0.1
longest = 12
[tagging]
datasets = ["essays", "webd"]
vectors = "word2vec"
init_from = "words"
[training]
epochs = 5
validations_per_epoch = 1
learning_rate = 0.02
batch_size = 6
micro_batch_size = 3
"""
TAGGING = TARGER_RECIPE[TARGER_RECIPE.index("[tagging]") : TARGER_RECIPE.index("[training]")]
LANGUAGE_MODEL = '[language_model]\nvectors = "word2vec"\nnegative_samples = 20\n'
LANGUAGE_RECIPE = TARGER_RECIPE.replace(TAGGING, LANGUAGE_MODEL).replace("epochs = 5", "epochs = 1")
LANGUAGE_RECIPE = LANGUAGE_RECIPE.replace("longest = 12", "longest = 30")


@pytest.fixture(scope="module")
def work(prepared_work_dir, without_plots, tmp_path_factory):
    """Prepare tags and vectors, and train the language model and the tagger."""
    directory = tmp_path_factory.mktemp("tagging")
    work = Path(shutil.copytree(prepared_work_dir, directory / "work"))
    flags = argv("--dimensions 6 --minimum-frequency 2 --epochs 1 --surface-tokens word2vec")
    assert main(argv("prepare tags -i", write_tagged(directory / "data"), "--work-dir", work)) == 0
    assert main(["prepare", "vectors", "--work-dir", str(work), *flags]) == 0
    for name, recipe in (("words", LANGUAGE_RECIPE), ("mine", TARGER_RECIPE)):
        (directory / f"{name}.toml").write_text(recipe)
        assert_runs(main, "fit", directory / f"{name}.toml", "--work-dir", work, "--device cpu")
    return work


def test_tagger_learns_and_reports_its_sources(work, corpus):
    checkpoint = work / "checkpoints" / "mine"
    metrics, provenance = (
        json.loads((checkpoint / f"{name}.json").read_text()) for name in ("metrics", "provenance")
    )
    # a fifth of the forty documents in each data set
    assert (metrics["documents"], metrics["last epoch"]) == (16, 5)
    assert metrics["validation"]["F1"] > 90
    card = (checkpoint / "README.md").read_text()
    essays = "persuasive essays (Stab and Gurevych; TARGER's files, MIT) and web discourse"
    assert f"Trained on {essays}" in card
    vectors = f"word vectors and language model: {corpus.name} arguments (licence not stated)"
    assert f"MIT); {vectors}. Hashes" in card
    training_data = provenance["training_data"]
    assert set(training_data.pop("input")) == {"essays.parquet", "webd.parquet"}
    sources = f"essays and webd (TARGER) and {corpus.name}"
    assert training_data == {"data": sources, "licence": "not stated"}
    expected = ("word2vec", "words")
    assert (provenance["vectors"]["surface_method"], provenance["init_from"]["name"]) == expected


def test_tagger_initialises_from_the_language_model(work):
    checkpoints = work / "checkpoints"
    metrics = json.loads((checkpoints / "words" / "metrics.json").read_text())
    assert metrics["validation"]["both"] > metrics["most frequent word"]["both"] > 0
    recipe = load_recipe(str(work.parent / "mine.toml"))
    pretrained, random_weights = (
        build_network(spec, work / "vectors-word2vec", checkpoints).network.state_dict()
        for spec in (recipe, replace(recipe, task=replace(recipe.task, init_from="")))
    )
    learned = LanguageModelCheckpoint.load(checkpoints / "words").network.state_dict()
    names = pretrained.keys() & learned.keys()
    same = {name for name in names if torch.equal(pretrained[name], learned[name])}
    assert same == {name for name in pretrained if not name.startswith(("emission.", "crf."))}
    reset = {name for name in pretrained if torch.equal(pretrained[name], random_weights[name])}
    assert reset == {"emission.weight", "emission.bias", "crf.transitions"}


INVALID_RECIPES = [  # old text, new text, exit code, and part of the message
    ('"word2vec"', '"fasttext"', 3, "--surface-tokens fasttext --dimensions 6`"),
    ("dropout = 0.1", "tags = ['O']", 2, "unknown key network.tags"),
    ('"words"', '"speech"', 4, "speech: checkpoint not found"),
    ("hidden = 12", "hidden = 13", 2, "init_from: the layer sizes of 'words' differ from the"),
    ("max_terms = 40", "max_terms = 39", 2, "init_from: the word vectors of 'words' differ"),
    ("[training]", "[training]\nmargin = 2.0", 2, "training.margin applies to [pairs] only"),
]


@pytest.mark.parametrize(("old", "new", "code", "message"), INVALID_RECIPES)
def test_invalid_recipes_fail(old, new, code, message, work, tmp_path, assert_fails):
    file = tmp_path / "refused.toml"
    file.write_text(TARGER_RECIPE.replace(old, new))
    assert_fails(code, message, "fit", file, "--work-dir", work, "--device cpu")


def test_vectors_of_another_kind_fail(work, tmp_path, assert_fails):
    command = argv("fit", work.parent / "mine.toml", "--work-dir", work, "-o", tmp_path / "out")
    message = "contains vectors of normalised words, but the recipe needs surface tokens (word2vec)"
    assert_fails(2, message, *command, "--vectors", work / "vectors")


STAGE = SYSTEMS["targer_dirichlet"].stage


def test_index_contains_only_kept_components(checkpoints_copy, execute):
    filtered = STAGE.get_index(execute().collection)
    tagger = load_tagger(checkpoints_copy / "targer_essays")
    network = tagger.network
    with torch.no_grad():
        network.emission.bias[1 + network.config.tags.index("I-P")] += 1e4  # all words are kept
    parts = TaggerCheckpoint, network, tagger.tokeniser
    save_network(checkpoints_copy / "targer_essays", *parts, {}, UNTRAINED, "# test\n")
    retrieval = execute()
    unreduced = LexicalStage("dirichlet")
    reduced, plain = (stage.get_index(retrieval.collection) for stage in (STAGE, unreduced))
    assert sorted(reduced.terms) == sorted(plain.terms)
    assert reduced.lengths.tolist() == plain.lengths.tolist()
    for row in range(len(plain.lengths)):
        first, second = (index.get_document_terms(row) for index in (reduced, plain))
        assert dict(zip(*first, strict=True)) == dict(zip(*second, strict=True))
    assert retrieval.rank(STAGE)["docno"].tolist() == retrieval.rank(unreduced)["docno"].tolist()
    assert 0 < filtered.total_length < plain.total_length
    assert len(filtered.lengths) == len(plain.lengths) == 575


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize(("limit", "is_announced"), [(574, True), (575, False)])
def test_index_counts_the_enriched_words_of_every_document(
    limit, is_announced, all_checkpoints_dir, execute, monkeypatch, caplog
):
    caplog.set_level("WARNING")
    monkeypatch.setattr(enrichment, "MANY_DOCUMENTS", limit)
    collection = execute().collection
    index = SYSTEMS["deepct_dirichlet"].stage.get_index(collection)
    texts = collection.documents.read_texts(collection.documents.searchable_docnos)["premise"]
    tagger = load_tagger(all_checkpoints_dir / "deepct")
    for row, words in enumerate(enrich_texts(texts.tolist(), tagger, CPU)):
        counts = dict(zip(*index.get_document_terms(row), strict=True))
        assert counts == index.count_enriched_terms(words)
    assert index.total_length > 1000
    message = "enriching 575 documents on a CPU takes hours; use a GPU, or --cache-dir DIR"
    assert (message in caplog.text) == is_announced
    caplog.clear()
    SYSTEMS["deepct_bm25_rm3"].stage.get_index(collection)  # of the same enriched documents
    assert caplog.text == ""


def test_explain_marks_claims_and_premises(corpus_with_topics, all_checkpoints_dir, execute):
    retrieval = execute(qid="1")
    system = SYSTEMS["targer_dirichlet"]
    plain, coloured = (
        format_scores(system, ["a0-0"], retrieval, is_coloured) for is_coloured in (False, True)
    )
    [marked] = re.findall(r"^claims and premises:\n(.+)$", plain, re.MULTILINE)
    argument = json.loads((corpus_with_topics / "args-me.json").read_text())["arguments"][0]
    text = f"{argument['conclusion']} {argument['premises'][0]['text']}"
    assert re.sub(r"\[(claim|premise): |\]", "", marked) == text
    tagger = load_tagger(all_checkpoints_dir / "targer_essays")
    network = tagger.network
    tagged = [word for part in tagger.tokeniser.split(text) for word in network.annotate([part])[0]]
    for part in ("claim", "premise"):
        words = " ".join(re.findall(rf"\[{part}: ([^]]+)\]", marked)).split()
        expected = [word.surface for word in tagged if network.get_component_type(word) == part]
        assert words == expected != []
    for colour, mark in (("\x1b[1;34m", "[claim: "), ("\x1b[32m", "[premise: "), ("\x1b[0m", "]")):
        coloured = coloured.replace(colour, mark)
    assert coloured == plain


@pytest.fixture
def flags(corpus_with_topics, all_checkpoints_dir, tmp_path):
    """Return the flags of studies of `corpus_with_topics`, which write table.csv."""
    paths = ["-i", corpus_with_topics, "--checkpoints", all_checkpoints_dir, "--device cpu"]
    return argv(*paths, "--work-dir", tmp_path, "-o", tmp_path / "table.csv")


def test_document_lengths_count_kept_components(flags, all_checkpoints_dir, tmp_path, execute):
    assert main(["study", "lengths", "targer_essays", *flags]) == 0
    table = pd.read_csv(tmp_path / "table.csv").set_index("corpus")
    store = execute().collection.documents
    documents = store.read_texts(store.searchable_docnos)
    texts = (documents["conclusion"] + " " + documents["premise"]).tolist()
    mean = np.mean([len(text.split()) for text in texts])
    assert table.loc["args.me", "mean"] == pytest.approx(mean, abs=0.01)
    tagger = load_tagger(all_checkpoints_dir / "targer_essays")
    sizes = np.array([sum(words.values()) for words in enrich_texts(texts, tagger, CPU)])
    expected = [sizes.max(), sizes.min(), sizes.mean(), np.median(sizes), sizes.std()]
    expected.append(100 * (sizes == 0).mean())
    row = table.loc["targer_essays", [*COLUMNS, "empty_percent"]]
    assert row.tolist() == pytest.approx(expected, abs=0.01)


def test_rank_changes_show_ranks_and_term_frequencies(flags, tmp_path, execute, assert_fails):
    (tmp_path / "qrels").write_text("1 0 a0-0 2\n1 0 elsewhere 0\n")
    command = argv("study rank-changes targer_essays --qrels", tmp_path / "qrels", *flags)
    assert main(command) == 0
    table = pd.read_csv(tmp_path / "table.csv").set_index("docno")
    assert table["label"].dropna().to_dict() == {"a0-0": 2}
    retrieval = execute(qid="1")
    collection = retrieval.collection
    stage = LexicalStage("dirichlet")
    terms = stage.get_index(collection).analyse_query(retrieval.topics["query"].item())
    for variant, variant_stage in {"original": stage, "enriched": STAGE}.items():
        counts = variant_stage.count_terms(collection, list(table.index))
        assert table[f"length_{variant}"].tolist() == [count.total() for count in counts]
        for term in terms:
            assert table[f"{term}_{variant}"].tolist() == [count[term] for count in counts]
        assert sorted(table[f"rank_{variant}"].dropna())[:25] == list(range(1, 26))
    premises = collection.documents.read_texts(list(table.index))["premise"]
    assert table["words"].tolist() == [len(premise.split()) for premise in premises]
    assert_fails(3, "topic 9999: not in the input", *command, "--topic 9999")
    assert main([word for word in command if word != "targer_essays"]) == 0
    original = pd.read_csv(tmp_path / "table.csv").set_index("docno")
    columns = [column for column in table if not column.endswith("_enriched")]
    expected = table.loc[table["rank_original"] <= 25, columns]
    pd.testing.assert_frame_equal(original, expected, check_dtype=False)


PASSAGE_COUNTS = """
all topic 5 60.0 23.0 | all conclusion 5 20.0 23.0 | all both 5 20.0 22.7 |
unjudged topic 3 33.3 23.2 | unjudged conclusion 3 33.3 23.2 | unjudged both 3 33.3 22.8 |
unpooled topic 2 0.0 24.3 | unpooled conclusion 2 0.0 24.2 | unpooled both 2 0.0 23.9
"""


def test_prepare_passages_labels_words_and_counts(make_input, tmp_path, capsys):
    long = "The zoo has cages for its animals. " * 40 + "Cages are cruel!"
    unrelated = "we discuss something else here and use no word of it at all " + "word " * 5
    premises = [long, f"{long} http://example.org/zoos", unrelated, "golf is too short"]
    contexts = [{"topic": "Should cages exist?"}, {"discussionTitle": "Golf"}, {}, {}]
    conclusions = ["Zoos are cruel", "Zoos are cruel", "Golf", "Golf"]
    rows = enumerate(zip(conclusions, premises, contexts, strict=True), 1)
    arguments = [
        make_argument(f"a{n}", conclusion, premise) | {"context": context}
        for n, (conclusion, premise, context) in rows
    ]
    qrels, run, work = (tmp_path / name for name in ("qrels", "run.txt", "work"))
    qrels.write_text("1 0 a2 1\n1 0 elsewhere 0\n")
    # a1 is ranked below the pool depth
    pooled = [*(f"elsewhere{n}" for n in range(1, 50)), "a3", "a1"]
    run.write_text(format_run_lines({"1": pooled}))
    flags = argv("-i", make_input(arguments=arguments), "--work-dir", work)
    assert_runs(main, "prepare passages", *flags, "--exclude-qrels", qrels, "--exclude-run", run)
    table = pd.read_parquet(work / "passages" / "passages.parquet")
    numbers = (table["docno"] + " " + table["number"].astype(str)).tolist()
    assert numbers == ["a1 1", "a1 2", "a2 1", "a2 2", "a3 1"]
    assert [len(passage.split()) for passage in table["passage"]] == [217, 66, 217, 66, 18]
    assert table["passage"][3].endswith("cruel!")  # URLs are removed
    assert table["discussion"].tolist() == ["should cages exist?"] * 2 + ["golf"] * 3
    assert [sorted(words) for words in table["topic"]] == [["cages"]] * 2 + [[]] * 3
    expected = [["zoo"], ["cruel", "zoo"], ["zoo"], ["cruel", "zoo"], []]
    assert [sorted(words) for words in table["conclusion"]] == expected
    assert table["judged"].tolist() == [False, False, True, True, False]
    assert table["pooled"].tolist() == [False] * 4 + [True]
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [row.split() for row in PASSAGE_COUNTS.split("|")]
    assert_runs(main, "study passages", *flags, "-o", tmp_path / "passages.csv")
    counts = pd.read_csv(tmp_path / "passages.csv").set_index(["arguments", "documents"])["empty"]
    assert counts["15 words or more", "all"].tolist() == [3, 1, 1]
    assert counts["15 words or more, with a topic", "all"].tolist() == [2, 0, 0]
    assert counts["all", "all"].tolist() == [4, 1, 1]
