"""Tests of training, from preparing data to messages on invalid inputs."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aragorn.engine import CPU
from aragorn.errors import InputError
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.rankings import truncate_rankings
from aragorn.systems.catalogue import FUSION_CANDIDATES
from aragorn.text.normalisation import tokenise_premise
from aragorn_training.__main__ import main
from aragorn_training.data import word_vectors
from aragorn_training.data.distant_supervision import CandidateSettings
from aragorn_training.data.distillation import load_table
from aragorn_training.data.pair_tables import load_training_pairs, load_validation_queries
from aragorn_training.fitting.initialisation import build_network
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.tasks.distillation import DistillationSpec
from aragorn_training.tasks.pairs import PairwiseSpec
from tests.conftest import (
    KNRM_RECIPE,
    REAL_DATA,
    argv,
    assert_runs,
    read_files,
    write_topics,
)

ONE_EPOCH = KNRM_RECIPE.replace("epochs = 3", "epochs = 1")
# gensim does not close text files of vectors.
UNCLOSED = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def fit(work_dir, write_recipe):
    """Return a function that returns the command that trains a recipe (default: KNRM's)."""
    return lambda text=KNRM_RECIPE, *flags: argv(
        "fit", write_recipe(text), "--work-dir", work_dir, "--device cpu", *flags
    )


def test_tables_hold_arguments_and_their_negatives(prepared_work_dir):
    for part, n_negatives in (("train", 1), ("validation", 20)):
        files = (prepared_work_dir / f"{part}.{unit}.parquet" for unit in ("words", "pieces"))
        words, pieces = map(pd.read_parquet, files)
        tokenised = [" ".join(tokenise_premise(premise)) for premise in pieces["premise"]]
        assert words["premise"].tolist() == tokenised
        assert words[["docno"]].equals(pieces[["docno"]])
        assert words["negatives"].map(tuple).equals(pieces["negatives"].map(tuple))
        distinct = [{*docnos} & {*pieces["docno"]} for docnos in pieces["negatives"]]
        assert {*map(len, distinct)} == {n_negatives}
    statistics = json.loads((prepared_work_dir / "statistics.json").read_text())
    expected = {"arguments": 575, "train arguments": 450, "validation arguments": 125}
    expected |= {"validation queries": 25, "median words per premise": 20.0}
    expected |= {"vocabulary of conclusions": 50, "vocabulary of premises": 70}
    assert {name: statistics[name] for name in expected} == expected


def test_tables_do_not_depend_on_the_order_of_arguments(corpus, tmp_path):
    arguments = json.loads((corpus / "args-me.json").read_text())["arguments"]
    (tmp_path / "args-me.json").write_text(json.dumps({"arguments": arguments[::-1]}))
    tables = []
    for source, work in ((corpus, tmp_path / "first"), (tmp_path, tmp_path / "reversed")):
        assert_runs(main, "prepare pairs -i", source, "--work-dir", work, "--sample 500")
        tables.append({file.name: file.read_bytes() for file in work.glob("*.parquet")})
    assert (len(tables[0]), tables[0]) == (4, tables[1])


def test_hard_negatives_share_words_with_the_conclusion(
    corpus, prepared_work_dir, work_dir, fit, assert_fails
):
    train = fit(f'{ONE_EPOCH}[pairs]\nhard_negatives = "dirichlet"\n')
    prepare = ["prepare", "pairs", "-i", str(corpus)]
    assert_fails(3, "run `aragorn-training prepare pairs -i INPUT", *train)
    assert main([*prepare, "--work-dir", str(work_dir), "--hard-negatives", "dirichlet"]) == 0
    # other files are unchanged
    assert read_files(prepared_work_dir).items() <= read_files(work_dir).items()
    hard_negatives = pd.read_parquet(work_dir / "dirichlet" / "unrelated.parquet")
    pairs = pd.read_parquet(work_dir / "train.words.parquet").set_index("docno")
    assert hard_negatives["docno"].tolist() == pairs.index.tolist()
    conclusions = pairs["normalised_conclusion"]
    negatives = pairs.loc[hard_negatives["unrelated_docno"]]
    assert (conclusions.to_numpy() != negatives["normalised_conclusion"].to_numpy()).all()
    texts = zip(conclusions, negatives["premise"], strict=True)
    assert all({*conclusion.split()} & {*premise.split()} for conclusion, premise in texts)
    recipe = Recipe(ranker="knrm", network={"dimensions": 20}, task=PairwiseSpec())
    tokeniser = build_network(recipe, work_dir / "vectors", work_dir).tokeniser
    hard = load_training_pairs(work_dir, "words", tokeniser, "dirichlet")
    expected = hard_negatives["unrelated_docno"].tolist()
    assert hard_negatives["docno"].to_numpy()[hard.negatives].tolist() == expected
    assert main([*prepare, "--work-dir", str(work_dir), "--seed", "1", "--overwrite"]) == 0
    assert_fails(3, "unrelated.parquet: built from other tables", *train)


@pytest.mark.parametrize("method", ["", "word2vec", "fasttext"])
def test_word_vectors_are_reproducible(method, work_dir, tmp_path):
    flags = argv("--work-dir", work_dir, "--minimum-frequency 2 --dimensions 20")
    flags += ["--surface-tokens", method] if method else []
    folder = work_dir / word_vectors.get_default_folder_name(method or None)
    assert_runs(main, "prepare vectors", *flags)
    assert_runs(main, "prepare vectors", *flags, "-o", tmp_path / "again")
    assert read_files(tmp_path / "again") == read_files(folder)
    vocabulary, vectors = word_vectors.load_vectors(folder)
    assert vectors.shape == (len(vocabulary.terms), 20)
    assert vocabulary.terms[0].startswith("filler")
    if method:
        text = pd.read_parquet(work_dir / "train.pieces.parquet")["premise"][0]
        tokens = word_vectors.PremiseTokens(work_dir, "word2vec")
        assert next(iter(tokens)) == word_vectors.split_surface_tokens(text)


@UNCLOSED
@pytest.mark.parametrize("file_format", ["glove", "word2vec", "binary"])
def test_vectors_are_read_from_files(file_format, work_dir, tmp_path):
    from gensim.models.keyedvectors import KeyedVectors

    table = KeyedVectors(3)
    is_binary = file_format == "binary"
    file = tmp_path / ("v.bin" if is_binary else "v.txt")
    rows = np.arange(9, dtype=np.float32).reshape(3, 3)
    table.add_vectors(["fillera", "topicaa", "unseen-word"], rows)
    table.save_word2vec_format(str(file), binary=is_binary, write_header=file_format != "glove")
    flags = argv("--from-file", file, "--dimensions 3 --minimum-frequency 2 -o", tmp_path / "out")
    assert main(["prepare", "vectors", "--work-dir", str(work_dir), *flags]) == 0
    vocabulary, vectors = word_vectors.load_vectors(tmp_path / "out")
    assert "unseen-word" not in vocabulary.terms
    assert vectors[vocabulary.terms.index("topicaa")].tolist() == [3, 4, 5]
    # random, since the file lacks the word
    assert np.abs(vectors[vocabulary.terms.index("topicab")]).max() > 0


UNSUITABLE = [("4 5 6", "vectors have 3 dimensions, expected 300; pass --dimensions 3\n")]
UNSUITABLE += [("4 five 6", "not a word2vec or GloVe file")]


@UNCLOSED
@pytest.mark.parametrize(("line", "message"), UNSUITABLE)
def test_unsuitable_vector_files_are_refused(line, message, work_dir, tmp_path, assert_fails):
    (tmp_path / "v.txt").write_text(f"fillera 1 2 3\ntopicaa {line}\n")
    command = argv("prepare vectors --work-dir", work_dir, "--from-file", tmp_path / "v.txt")
    assert_fails(3, message, *command, "-o", tmp_path / "v")


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("= 20", "= 30", 2, "network.dimensions is 30, but the word vectors have 20"),
        ("= 20", "= 20\nkernels = 1", 2, "network.kernels: Expected `int` >= 2"),
        ("= 0.01", "= 0.01\nl1_weight = 0.02", 2, "no latent vectors; remove training.l1_weight"),
        ("= 0.01", "= 9e8\nmax_steps = 2", 7, "step 2: all validation scores are identical"),
    ],
)
def test_unsuitable_recipes_fail(old, new, code, message, fit, work_dir, assert_fails):
    text = KNRM_RECIPE.replace("per_epoch = 3", "per_epoch = 1").replace(old, new)
    assert_fails(code, message, *fit(text if code == 2 else text.replace("knrm", "conv_knrm")))
    assert not (work_dir / "checkpoints").exists()


def test_infinite_loss_stops_training(fit, monkeypatch, assert_fails):
    monkeypatch.setattr("aragorn_training.fitting.training_loop.take_step", lambda *_: np.inf)
    assert_fails(7, "step 1: the loss is inf", *fit(ONE_EPOCH))


@pytest.mark.slow
@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the args.me data")
def test_real_excerpt_has_the_published_split(tmp_path):
    assert_runs(
        main, "prepare pairs -i", REAL_DATA / "touche-2020/input", "--work-dir", tmp_path / "w"
    )
    statistics = json.loads((tmp_path / "w" / "statistics.json").read_text())
    assert (statistics["train arguments"], statistics["validation arguments"]) == (15192, 550)
    assert next(iter(statistics["most frequent conclusions"].items())) == ("gay marriage legal", 56)


SNRM = "dimensions = 20\nlatent = 30\npadded = true"
SNRM_TASK = (
    "l1_weight = 0.001\n[clusters]\nthreshold = 0.4\n[contrastive]\nweak_label_weight = 0.3\n"
)


def test_snrm_trains_from_clusters_and_logs_sparsity(work_dir, fit):
    text = ONE_EPOCH.replace("knrm", "snrm").replace("dimensions = 20", SNRM) + SNRM_TASK
    assert main(fit(text)) == 0
    directory = work_dir / "checkpoints" / "mine"
    metrics = json.loads((directory / "metrics.json").read_text())
    assert metrics["validation"]["recall@100 (full collection)"] > 20
    expected = max(metrics["log"], key=lambda row: row["nDCG@10 (full collection)"])["epoch"]
    assert metrics["best epoch"] == expected
    recipe = json.loads((directory / "provenance.json").read_text())["recipe"]
    assert recipe["clusters"] == {"threshold": 0.4, "rarity_exponent": 1.0}
    checkpoint = load_checkpoint(directory)
    queries = load_validation_queries(work_dir, "words", checkpoint.tokeniser, CandidateSettings())
    vectors = checkpoint.network.encode(*queries.queries.batch(np.arange(25), "cpu"))
    sparsity = 100 * float((vectors == 0).double().mean())
    assert metrics["validation"]["query sparsity"] == pytest.approx(sparsity, abs=0.01)
    assert all(0 <= row["document sparsity"] <= 100 for row in metrics["log"])


@pytest.fixture
def debates(corpus_with_topics):
    """Give each argument a debate title: its conclusion and words that no topic has."""
    content = json.loads((corpus_with_topics / "args-me.json").read_text())
    for argument in content["arguments"]:
        title = f"{argument['conclusion']}, as everybody believes who has ever lived anywhere"
        argument["context"] = {"discussionTitle": title}
    (corpus_with_topics / "args-me.json").write_text(json.dumps(content))
    return corpus_with_topics


@pytest.fixture
def prepare(debates, all_checkpoints_dir, work_dir):
    """Return a function that returns the command that prepares the scores of `dirichlet`."""
    command = argv("prepare distillation -i", debates, "--work-dir", work_dir, "--checkpoints")
    command += argv(all_checkpoints_dir, "--device cpu --titles 60 --documents 8")
    return lambda *flags: [*command, *argv("--teacher dirichlet", *flags)]


def test_scores_are_those_of_the_teachers_ranking(
    prepare, debates, work_dir, make_retrieval, all_checkpoints_dir, tmp_path
):
    assert main(prepare()) == 0  # caches rankings of other titles
    assert main(prepare("--seed 3 --overwrite")) == 0
    table, manifest = load_table(work_dir)
    assert 40 < table["topic"].nunique() <= 60
    assert set(table.groupby("topic").size()) == {8}
    assert {"topics.xml", "args-me.json", "titles"} <= set(manifest.inputs["input"])
    title = table["topic"].unique()[0]
    single_topic = Path(shutil.copytree(debates, tmp_path / "single"))
    write_topics(single_topic / "topics.xml", [title])
    retrieval = make_retrieval(single_topic, checkpoints=all_checkpoints_dir)
    ranking = retrieval.rank(FUSION_CANDIDATES["dirichlet"])
    rows = table[table["topic"] == title]
    # half of the rows are the top ranks
    assert rows["docno"].tolist()[:4] == truncate_rankings(ranking, 4)["docno"].tolist()
    ranks = ranking.reset_index(drop=True).reset_index().set_index("docno")["index"]
    assert ranks[rows["docno"]].max() >= 8
    scores = ranking.set_index("docno")["score"]
    assert rows["score"].tolist() == scores[rows["docno"]].tolist()
    documents = retrieval.collection.documents.read_texts(set(table["docno"]))
    texts = documents.set_index("docno")["premise"]
    assert table["premise"].tolist() == texts.loc[table["docno"]].tolist()


@pytest.mark.usefixtures("without_plots")
def test_ranker_learns_labelled_pairs(fit, corpus, work_dir, tmp_path, caplog):
    arguments = json.loads((corpus / "args-me.json").read_text())["arguments"][::5]
    lines = ["query\ttext\tlabel"]
    for argument, next_argument in pairwise(arguments):
        for label, text in ((1, argument), (0, next_argument)):
            lines.append(f"{argument['conclusion']}\t{text['premises'][0]['text']}\t{label}")
    file = tmp_path / "own.tsv"
    file.write_text("\n".join(lines) + "\n")
    assert main(argv("prepare labels -i", file, "--work-dir", work_dir)) == 0
    assert main(fit(KNRM_RECIPE + "[distillation]\n", "-o", tmp_path / "knrm")) == 0
    metrics = json.loads((tmp_path / "knrm" / "metrics.json").read_text())
    assert metrics["validation"]["Pearson"] > 80
    card = (tmp_path / "knrm" / "README.md").read_text()
    assert "Trained on the labelled pairs of own.tsv. Hashes" in card
    assert "Licence of the weights: not stated." in card
    assert "args.me" not in card
    assert "mine: only 9 steps; raise epochs or lower batch_size" in caplog.messages


def test_topics_are_excluded_and_faults_keep_the_table(prepare, debates, work_dir, assert_fails):
    assert main(prepare()) == 0
    titles = load_table(work_dir)[0]["topic"].unique()
    excluded = debates / "excluded.xml"
    write_topics(excluded, [title.partition(",")[0] for title in titles[:-1]])
    for changed in (["--exclude-topics", excluded], ["--seed 3"], ["--documents 4"]):
        assert_fails(5, "use --overwrite", *prepare(*changed))
    assert main(prepare("--exclude-topics", excluded, "--overwrite")) == 0
    table = load_table(work_dir)[0]
    assert not set(table["topic"]) & set(titles[:-1])
    message = "none of 60 titles does dirichlet rank at least 900 documents with different scores"
    assert_fails(3, message, *prepare("--documents 900 --overwrite"))
    assert load_table(work_dir)[0].equals(table)
    assert main(prepare("--titles 1 --overwrite")) == 0
    recipe = Recipe(ranker="knrm", task=DistillationSpec())
    with pytest.raises(InputError, match="1 title; at least 2 are needed"):
        recipe.task.build_task(recipe, None, work_dir, CPU)
    assert_fails(2, "did you mean 'dirichlet'?", *prepare("--teacher dirichlett"))
    corpus = debates / "args-me.json"
    corpus.write_text(corpus.read_text().replace("discussionTitle", "title"))
    assert_fails(3, "no debate titles; use a larger corpus", *prepare())
