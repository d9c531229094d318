"""Tests of training, from prepared data to a checkpoint that ranks, with interruptions and invalid inputs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from submission.__main__ import main as submission
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.rankers.knrm import KNRM
from submission.storage.locks import lock_directory
from submission.text.normalisation import tokenise_premise
from submission.text.tokenisers import WordTokeniser
from submission.text.vocabulary import PADDING_ID, UNKNOWN_ID
from tests.conftest import KNRM_RECIPE, REAL_DATA, ROOT, SAMPLE, count_colours, read_files
from tests.endtoend.conftest import AssertFails, Capture, Command, Log
from training import tasks
from training.__main__ import main
from training.cli.fit_all import describe_missing_inputs
from training.data import word_vectors
from training.data.pair_tables import load_training_pairs, load_validation_queries
from training.fitting.initialisation import build_network
from training.fitting.recipe import Recipe
from training.fitting.training_loop import take_step
from training.tasks import load_recipe
from training.tasks.pairs import PairwiseSpec, PairwiseTask

ONE_EPOCH = KNRM_RECIPE.replace("epochs = 3", "epochs = 1")
# gensim does not close text files of vectors.
UNCLOSED = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def fit(work_dir: Path, write_recipe: Callable[..., str]) -> Command:
    """Return the command that trains a recipe."""
    return lambda text=KNRM_RECIPE, *flags: ["fit", write_recipe(text), "--work-dir", str(work_dir), "--device", "cpu", *flags]


def test_tables_agree_and_validation_has_5_positives(prepared_work_dir: Path) -> None:
    for part, repetitions in (("train", 1), ("validation", 20)):
        paths = (prepared_work_dir / f"{part}.{unit}.parquet" for unit in ("words", "pieces"))
        words, pieces = (pq.read_table(path).to_pylist() for path in paths)
        docnos = {row["docno"] for row in pieces}
        for word_row, piece_row in zip(words, pieces, strict=True):
            assert word_row["docno"] == piece_row["docno"]
            assert word_row["premise"] == " ".join(tokenise_premise(piece_row["premise"]))
            assert word_row["unrelated_docnos"] == piece_row["unrelated_docnos"]
            assert len(set(piece_row["unrelated_docnos"]) & docnos) == repetitions
    table = pd.read_parquet(prepared_work_dir / "validation.words.parquet")
    queries = list(table.groupby("normalised_conclusion"))
    assert len(queries) == 25
    for conclusion, related in queries:
        unrelated = {docno for docnos in related["unrelated_docnos"] for docno in docnos}
        negatives = table[table["docno"].isin(unrelated)]
        assert (len(related), len(unrelated), len(negatives)) == (5, 100, 100)
        assert conclusion not in set(negatives["normalised_conclusion"])
    statistics = json.loads((prepared_work_dir / "statistics.json").read_text())
    expected = {"arguments": 575, "train arguments": 450, "validation arguments": 125, "validation queries": 25}
    expected |= {"vocabulary of conclusions": 50, "vocabulary of premises": 70, "median words per premise": 20.0}
    assert {name: statistics[name] for name in expected} == expected
    assert list(statistics["most frequent conclusions"].values()) == [6] * 20
    for name in ("premise-lengths.png", "conclusion-lengths.png"):
        assert count_colours((prepared_work_dir / name).read_bytes()) > 50  # bars and anti-aliased text


def test_prepare_the_sample_and_a_subset(tmp_path: Path) -> None:
    tables = []
    for flags in ([], ["--sample", "440"]):
        assert main(["prepare", "pairs", "-i", str(SAMPLE), "--work-dir", str(tmp_path / f"{len(flags)}"), *flags]) == 0
        tables.append(json.loads((tmp_path / f"{len(flags)}" / "statistics.json").read_text()))
    assert (tables[0]["arguments"], tables[0]["validation queries"], tables[1]["arguments"]) == (461, 30, 440)


def test_prepare_is_incremental_and_rejects_other_settings(
    corpus: Path, prepared_work_dir: Path, work_dir: Path, tmp_path: Path, assert_fails: AssertFails
) -> None:
    first = {name: data for name, data in read_files(prepared_work_dir).items() if "/" not in name}
    prepare = ["prepare", "pairs", "-i", str(corpus), "--work-dir"]
    assert main([*prepare, str(tmp_path / "again")]) == 0
    assert read_files(tmp_path / "again") == first
    (work_dir / "train.words.parquet").unlink()
    modified = (work_dir / "train.pieces.parquet").stat().st_mtime_ns
    assert main([*prepare, str(work_dir)]) == 0
    assert {name: data for name, data in read_files(work_dir).items() if "/" not in name} == first
    assert (work_dir / "train.pieces.parquet").stat().st_mtime_ns == modified
    assert_fails(5, "contains files made from another seed", *prepare, work_dir, "--seed", 1)
    assert main([*prepare, str(work_dir), "--seed", "1", "--overwrite"]) == 0


def test_prepare_does_not_depend_on_argument_order(corpus: Path, prepared_work_dir: Path, tmp_path: Path) -> None:
    arguments = json.loads((corpus / "args-me.json").read_text())["arguments"]
    (tmp_path / "args-me.json").write_text(json.dumps({"arguments": arguments[::-1]}))
    assert main(["prepare", "pairs", "-i", str(tmp_path), "--work-dir", str(tmp_path / "work")]) == 0
    for name, directory in (("sample", corpus), ("shuffled sample", tmp_path)):
        assert main(["prepare", "pairs", "-i", str(directory), "--work-dir", str(tmp_path / name), "--sample", "500"]) == 0
    for first, shuffled in ((prepared_work_dir, tmp_path / "work"), (tmp_path / "sample", tmp_path / "shuffled sample")):
        tables = list(first.glob("*.parquet"))
        assert len(tables) == 4
        for table in tables:
            assert (shuffled / table.name).read_bytes() == table.read_bytes()


def test_training_on_hard_negatives(
    corpus: Path,
    prepared_work_dir: Path,
    work_dir: Path,
    fit: Command,
    tmp_path: Path,
    assert_fails: AssertFails,
    capsys: Capture,
) -> None:
    train = fit(f'{ONE_EPOCH}[pairs]\nhard_negatives = "dirichlet"\n')
    assert_fails(3, "run `python -m training prepare pairs -i INPUT", *train)
    prepare = ["prepare", "pairs", "-i", str(corpus), "--work-dir", str(work_dir), "--hard-negatives", "dirichlet"]
    assert main(prepare) == 0
    first = read_files(work_dir)
    assert read_files(prepared_work_dir).items() <= first.items()  # other files are unchanged
    hard_negatives = pd.read_parquet(work_dir / "dirichlet" / "unrelated.parquet")
    pairs = pd.read_parquet(work_dir / "train.words.parquet").set_index("docno")
    assert hard_negatives["docno"].tolist() == pairs.index.tolist()
    conclusions, negatives = pairs["normalised_conclusion"], pairs.loc[hard_negatives["unrelated_docno"]]
    assert (conclusions.to_numpy() != negatives["normalised_conclusion"].to_numpy()).all()
    least_similar = pairs.loc[[docnos[0] for docnos in pairs["unrelated_docnos"]]]

    def overlap(premises: pd.Series) -> float:
        texts = zip(conclusions, premises, strict=True)
        return float(np.mean([bool({*conclusion.split()} & {*premise.split()}) for conclusion, premise in texts]))

    assert overlap(negatives["premise"]) == 1 > 0.5 > overlap(least_similar["premise"])
    recipe = Recipe(ranker="knrm", network={"dimensions": 20}, task=PairwiseSpec())
    tokeniser = build_network(recipe, work_dir / "vectors", work_dir).tokeniser
    assert isinstance(tokeniser, WordTokeniser)
    default = load_training_pairs(work_dir, "words", tokeniser)
    hard = load_training_pairs(work_dir, "words", tokeniser, "dirichlet")
    assert hard_negatives["docno"].to_numpy()[hard.negatives].tolist() == hard_negatives["unrelated_docno"].tolist()
    assert (default.negatives != hard.negatives).mean() > 0.9
    assert torch.equal(default.premises.ids, hard.premises.ids)
    assert main(prepare) == 0
    assert read_files(work_dir) == first
    assert main(train) == 0
    provenance = json.loads((work_dir / "checkpoints" / "mine" / "provenance.json").read_text())
    assert provenance["recipe"]["pairs"] == {"hard_negatives": "dirichlet"}
    assert provenance["training_data"] == json.loads((work_dir / "dirichlet" / "manifest.json").read_text())["inputs"]
    stored = Path(shutil.copytree(work_dir / "checkpoints", tmp_path / "stored"))
    paths = ["-i", str(corpus), "--work-dir", str(tmp_path / "new"), "--checkpoints", str(stored)]
    assert main(["reproduce", train[1], *paths]) == 0
    assert "weights: identical" in capsys.readouterr().out
    assert main(["prepare", "pairs", "-i", str(corpus), "--work-dir", str(work_dir), "--seed", "1", "--overwrite"]) == 0
    assert_fails(3, "missing or built from other tables", *train)


def test_word_vectors_are_reproducible(work_dir: Path, tmp_path: Path) -> None:
    prepare, files = ["prepare", "vectors", "--work-dir", str(work_dir), "--minimum-frequency", "2", "--dimensions"], {}
    assert main([*prepare, "20", "-o", str(tmp_path / "again")]) == 0
    assert read_files(tmp_path / "again") == read_files(work_dir / "vectors")
    vocabulary, vectors = word_vectors.load_vectors(work_dir / "vectors")
    assert vectors.shape == (len(vocabulary.terms), 20)
    assert vocabulary.terms[0].startswith("filler")
    for method in ("word2vec", "fasttext"):
        surface = [*prepare, "5", "--epochs", "1", "--surface-tokens", method]
        assert main(surface) == main([*surface, "-o", str(tmp_path / method)]) == 0
        assert read_files(tmp_path / method) == read_files(work_dir / f"vectors-{method}")
        files[method] = word_vectors.load_vectors(work_dir / f"vectors-{method}")
    assert files["word2vec"][0].terms == files["fasttext"][0].terms
    assert not np.allclose(files["word2vec"][1], files["fasttext"][1], atol=0.01)
    settings = word_vectors.VectorSettings(surface_method="word2vec")
    text = next(iter(pq.ParquetFile(work_dir / "train.pieces.parquet").iter_batches(1)))["premise"][0].as_py()
    assert next(iter(word_vectors.PremiseTokens(work_dir, settings))) == word_vectors.split_surface_tokens(text)
    assert settings.premise_table == "train.pieces.parquet"


@UNCLOSED
def test_vectors_are_read_from_files(work_dir: Path, tmp_path: Path, assert_fails: AssertFails) -> None:
    from gensim.models.keyedvectors import KeyedVectors

    table = KeyedVectors(3)
    table.add_vectors(["fillera", "topicaa", "unseen-word"], np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=np.float32))
    for file_format in ("glove", "word2vec", "binary"):
        file, output = tmp_path / ("v.bin" if file_format == "binary" else "v.txt"), tmp_path / file_format
        table.save_word2vec_format(str(file), binary=file_format == "binary", write_header=file_format != "glove")
        flags = ["-i", str(file), "--dimensions", "3", "--minimum-frequency", "2", "-o", str(output)]
        assert main(["prepare", "vectors", "--work-dir", str(work_dir), *flags]) == 0
        vocabulary, vectors = word_vectors.load_vectors(output)
        assert "unseen-word" not in vocabulary.terms
        assert vectors[vocabulary.terms.index("topicaa")].tolist() == [4, 5, 6]
        assert np.abs(vectors[vocabulary.terms.index("topicab")]).max() > 0  # random, since the file lacks the word
    for line, words in (("4 5 6", "vectors have 3 dimensions, expected 300"), ("4 five 6", "not a word2vec or GloVe file")):
        (tmp_path / "v.txt").write_text(f"fillera 1 2 3\ntopicaa {line}\n")
        assert_fails(3, words, "prepare", "vectors", "--work-dir", work_dir, "-i", tmp_path / "v.txt", "-o", tmp_path / "v")


TOY = '''"""Learn a constant score of every premise for its conclusion."""

from dataclasses import replace
from typing import Annotated, ClassVar

from msgspec import Meta

from training.fitting.initialisation import TextNetworkSpec
from training.tasks.pairs import PairwiseSpec, PairwiseTask


class Toy(TextNetworkSpec, frozen=True):
    curve: ClassVar = replace(PairwiseSpec.curve, keep_last=True)
    score: Annotated[float, Meta(ge=-1, le=1)]

    def build_task(self, recipe, trainee, work, device):
        task = Constant.load(recipe, trainee, work, device)
        task.score = self.score
        return task


class Constant(PairwiseTask):
    def loss(self, ranker, micro_batch, batch):
        texts = [texts.batch(micro_batch, self._device) for texts in (self._pairs.queries, self._pairs.premises)]
        return (ranker(*texts[0], *texts[1]) - self.score).square().sum() / len(batch)
'''


def test_custom_task(
    work_dir: Path, fit: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_fails: AssertFails
) -> None:
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path)])
    assert_fails(2, "Expected `float` <= 1.0 - at `$.toy.score`", *fit(f"{KNRM_RECIPE}[toy]\nscore = 2\n"))
    assert main(fit(f"{KNRM_RECIPE}[toy]\nscore = 0.25\n")) == 0
    checkpoint = work_dir / "checkpoints" / "mine"
    assert json.loads((checkpoint / "provenance.json").read_text())["recipe"]["toy"] == {"score": 0.25}
    assert json.loads((checkpoint / "metrics.json").read_text())["log"][-1]["loss"] < 0.01
    assert "- toy.score: 0.25\n" in (checkpoint / "README.md").read_text()
    train = pd.read_parquet(work_dir / "train.words.parquet")
    pairs = list(zip(train["conclusion"][:20], train["premise"][:20], strict=True))
    assert load_checkpoint(checkpoint).score(pairs) == pytest.approx([0.25] * 20, abs=0.1)


def test_trained_network_ranks_the_sample(work_dir: Path, write_recipe: Callable[..., str], tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "knrm"
    assert main(["fit", write_recipe(), "--work-dir", str(work_dir), "-o", str(checkpoint)]) == 0
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    assert metrics["validation"]["MAP@20"] > 90
    assert metrics["BM25 over premises"]["MAP@20"] > 50
    rows = [json.loads(line) for line in (work_dir / "fit" / "mine" / "log.jsonl").read_text().splitlines()]
    assert len(rows) == 9
    assert max(row["MAP@20"] for row in rows) == pytest.approx(metrics["validation"]["MAP@20"], abs=1)
    assert rows[-1]["loss"] < rows[0]["loss"] / 2
    assert "CC BY 4.0" in (checkpoint / "README.md").read_text()
    assert count_colours((work_dir / "fit" / "mine" / "curve.png").read_bytes()) > 200  # curves and anti-aliased text
    paths = ["-i", str(SAMPLE), "-o", str(tmp_path / "o"), "--checkpoints", str(checkpoint.parent)]
    assert submission(["rank", *paths, "--system", "knrm"]) == 0


@pytest.mark.slow
def test_killed_training_resumes_with_the_same_bytes(work_dir: Path, write_recipe: Callable[..., str], tmp_path: Path) -> None:
    uninterrupted = tmp_path / "whole"
    shutil.copytree(work_dir, uninterrupted)
    command = [sys.executable, "-m", "training", "fit", write_recipe(), "--device", "cpu", "--work-dir"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(uninterrupted)], check=True, env=environment, cwd=tmp_path, capture_output=True)
    log = work_dir / "fit" / "mine" / "log.jsonl"
    process = subprocess.Popen([*command, str(work_dir)], env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and len(log.read_text().splitlines()) >= 4):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (work_dir / "checkpoints").exists()
    resumed = subprocess.run(
        [*command, str(work_dir)], check=True, env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert "Resuming at step" in resumed.stderr
    assert read_files(work_dir / "checkpoints") == read_files(uninterrupted / "checkpoints")
    assert read_files(work_dir / "fit")["mine/log.jsonl"] == read_files(uninterrupted / "fit")["mine/log.jsonl"]


SURFACE_VECTORS = " --surface-tokens word2vec --dimensions 100"


@pytest.mark.parametrize(("recipe", "flags"), [("knrm", ""), ("targer_language", SURFACE_VECTORS)])
def test_missing_vectors_name_the_prepare_command(prepared_work_dir: Path, tmp_path: Path, recipe: str, flags: str) -> None:
    command = f"`python -m training prepare vectors --work-dir {prepared_work_dir}{flags}`"
    assert (
        describe_missing_inputs(load_recipe(recipe), prepared_work_dir, tmp_path)
        == f"{tmp_path}: no word vectors; run {command}"
    )


def test_complete_checkpoint_is_skipped_and_damaged_one_replaced(
    fit: Command,
    work_dir: Path,
    checkpoints: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Log,
    assert_fails: AssertFails,
) -> None:
    assert main(fit(ONE_EPOCH)) == 0
    checkpoint = work_dir / "checkpoints" / "mine"
    before, times = read_files(checkpoint), {file: file.stat().st_mtime_ns for file in checkpoint.iterdir()}
    caplog.set_level("INFO")
    assert main(fit(ONE_EPOCH)) == 0
    assert f"{checkpoint}: already complete, skipped" in caplog.text
    assert {file: file.stat().st_mtime_ns for file in checkpoint.iterdir()} == times
    (checkpoint / "metrics.json").write_text("{}")
    assert main(fit(ONE_EPOCH)) == 0
    assert read_files(checkpoint) == before
    provenance = json.loads((checkpoint / "provenance.json").read_text())
    (checkpoint / "provenance.json").write_text(json.dumps({**provenance, "torch": "1.0"}))  # another version of torch
    assert main(fit(ONE_EPOCH)) == 0
    assert read_files(checkpoint) == before
    assert main(fit(ONE_EPOCH, "-o", str(checkpoints / "knrm"))) == 0  # replaces another checkpoint
    assert read_files(checkpoints / "knrm") == before
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("text")
    assert_fails(5, "not a checkpoint directory; choose another --output", *fit(ONE_EPOCH, "-o", str(tmp_path / "foreign")))
    assert read_files(tmp_path / "foreign") == {"thesis.txt": b"text"}
    assert_fails(2, "saved with another recipe, other tables or other vectors; pass --restart", *fit())
    (work_dir / "fit" / "mine" / "state.pt").write_bytes(b"garbage")
    assert_fails(3, "pass --restart to start over", *fit(ONE_EPOCH))
    sync, calls = os.fsync, iter(range(10**6))

    def fail_once(descriptor: int) -> None:
        if next(calls) == 3:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    assert_fails(5, "No space left on device", *fit(KNRM_RECIPE, "--restart"))
    assert read_files(checkpoint) == before
    load_checkpoint(checkpoint)


@pytest.mark.parametrize(
    ("ranker", "network"),
    [("knrm", {}), ("conv_knrm", {"channels": 4}), ("gru", {"hidden": 4}), ("snrm", {"latent": 10})],
)
def test_training_step_changes_only_words_of_the_batch(prepared_work_dir: Path, ranker: str, network: dict[str, int]) -> None:
    recipe = Recipe(ranker=ranker, network={"dimensions": 20, **network}, task=PairwiseSpec())
    trainee = build_network(recipe, prepared_work_dir / "vectors", prepared_work_dir)
    pairs = load_training_pairs(prepared_work_dir, "words", trainee.tokeniser)
    optimiser = trainee.build_optimiser(recipe.training.learning_rate, recipe.encoder.learning_rate)
    task = PairwiseTask.load(recipe, trainee, prepared_work_dir, torch.device("cpu"))
    for rows in np.arange(8).reshape(4, 2):
        before = trainee.network.state_dict()["embedding.weight"].clone()
        take_step(trainee.network, optimiser, task, rows, 2)
        after = trainee.network.state_dict()["embedding.weight"]
        premises = pairs.premises.ids[np.concatenate([rows, pairs.negatives[rows]])]
        words = torch.cat([pairs.queries.ids[rows].flatten(), premises.flatten()]).unique()
        changed = (after != before).any(1).nonzero().flatten()
        assert 20 < len(changed) < len(after) - 10
        assert set(changed.tolist()) <= set(words.tolist()) - {PADDING_ID, UNKNOWN_ID}


def test_incompatible_recipes_fail(fit: Command, assert_fails: AssertFails) -> None:
    for text, words in (
        (KNRM_RECIPE.replace("= 20", "= 30"), "network.dimensions is 30, but the word vectors have 20"),
        (KNRM_RECIPE.replace("= 20", "= 20\nkernels = 1"), "cannot build knrm from [network]"),
        (f"{KNRM_RECIPE}l1_weight = 0.02\n", "knrm has no latent vectors; remove training.l1_weight"),
    ):
        assert_fails(2, words, *fit(text))


def test_fit_without_prepared_data_fails(write_recipe: Callable[..., str], tmp_path: Path, assert_fails: AssertFails) -> None:
    words = "run `python -m training prepare vectors --work-dir WORK_DIR`"
    assert_fails(3, words, "fit", write_recipe(), "--work-dir", tmp_path)
    assert_fails(3, "training prepare", "prepare", "vectors", "--work-dir", tmp_path)


def test_diverged_and_dead_networks_fail(
    fit: Command, work_dir: Path, monkeypatch: pytest.MonkeyPatch, assert_fails: AssertFails
) -> None:
    diverging = KNRM_RECIPE.replace("epochs = 3", "epochs = 1\nmax_steps = 1").replace("= 3\n", "= 1\n").replace("0.01", "1e20")
    assert_fails(7, "not finite; lower training.learning_rate", *fit(diverging.replace("knrm", "conv_knrm")))
    forward, score = KNRM.forward, KNRM.score_features
    monkeypatch.setattr(KNRM, "score_features", lambda *tensors: score(*tensors) * 0)
    assert_fails(7, "all validation scores are equal; lower training.learning_rate", *fit(KNRM_RECIPE, "--restart"))
    monkeypatch.setattr(KNRM, "forward", lambda *tensors: forward(*tensors) * torch.nan)
    assert_fails(7, "step 1: the loss is nan; lower training.learning_rate", *fit(KNRM_RECIPE, "--restart"))
    assert not (work_dir / "checkpoints").exists()


@pytest.mark.slow
@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the args.me data")
def test_real_excerpt_has_the_published_split(tmp_path: Path) -> None:
    assert main(["prepare", "pairs", "-i", str(REAL_DATA / "touche-2020/input"), "--work-dir", str(tmp_path / "w")]) == 0
    statistics = json.loads((tmp_path / "w" / "statistics.json").read_text())
    assert (statistics["train arguments"], statistics["validation arguments"]) == (15192, 550)
    assert next(iter(statistics["most frequent conclusions"].items())) == ("gay marriage legal", 56)


def test_latent_network_logs_sparsity(work_dir: Path, fit: Command) -> None:
    text = KNRM_RECIPE.replace("knrm", "snrm").replace("dimensions = 20", "dimensions = 20\nlatent = 60")
    assert main(fit(f"{text}l1_weight = 0.001\n")) == 0
    rows = [json.loads(line) for line in (work_dir / "fit" / "mine" / "log.jsonl").read_text().splitlines()]
    assert all(0 <= row[f"{text} sparsity"] <= 100 for row in rows for text in ("query", "document"))
    checkpoint = load_checkpoint(work_dir / "checkpoints" / "mine")
    validation = json.loads((work_dir / "checkpoints" / "mine" / "metrics.json").read_text())["validation"]
    queries = load_validation_queries(work_dir, "words", checkpoint.tokeniser)
    vectors = checkpoint.network.encode(*queries.queries.batch(np.arange(25), torch.device("cpu")))  # type: ignore[operator]
    assert validation["query sparsity"] == pytest.approx(100 * float((vectors == 0).double().mean()), abs=0.01)
    lengths = torch.linalg.vector_norm(checkpoint.network.state_dict()["embedding.weight"][2:], dim=1)
    assert 0.5 < lengths.median() < 2  # initialised with unit vectors


def test_snrm_trains_from_clusters_with_in_batch_negatives(work_dir: Path, fit: Command, tmp_path: Path) -> None:
    text = KNRM_RECIPE.replace("knrm", "snrm").replace("dimensions = 20", "dimensions = 20\nlatent = 30\npadded = true")
    text = f"{text}l1_weight = 0.001\n[clusters]\nthreshold = 0.4\n[contrastive]\nweak_label_weight = 0.3\n"
    assert main(fit(text)) == 0
    checkpoint = work_dir / "checkpoints" / "mine"
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    assert metrics["validation"]["recall@100 (full collection)"] > 20
    best = max(metrics["log"], key=lambda row: row["nDCG@10 (full collection)"])
    assert best["epoch"] == metrics["best epoch"]
    recipe = json.loads((checkpoint / "provenance.json").read_text())["recipe"]
    assert recipe["clusters"] == {"threshold": 0.4, "rarity_exponent": 1.0}
    assert recipe["contrastive"] == {"temperature": 1.0, "weak_label_weight": 0.3, "mu": 200.0}
    assert main(fit(text, "-o", str(tmp_path / "again"), "--restart")) == 0
    weights = [(directory / "model.safetensors").read_bytes() for directory in (checkpoint, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_learning_rate_decays_to_zero(fit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = torch.optim.Adam.step

    def record(optimiser: torch.optim.Adam) -> None:
        rates.append(optimiser.param_groups[0]["lr"])
        step(optimiser)

    monkeypatch.setattr(torch.optim.Adam, "step", record)
    assert main(fit(f"{KNRM_RECIPE}linear_decay = true\nmax_steps = 10\n")) == 0
    assert rates == pytest.approx([0.01 * (1 - i / 10) for i in range(10)])


def test_second_process_in_the_work_dir_fails(
    corpus: Path, work_dir: Path, write_recipe: Callable[..., str], assert_fails: AssertFails
) -> None:
    source = ["-i", corpus]
    commands = [["prepare", "pairs", *source], ["prepare", "vectors"], ["fit", write_recipe()], ["fuse", "ensemble"]]
    for command in (*commands, ["reproduce", "knrm", *source]):
        with lock_directory(work_dir):
            assert_fails(5, f"{work_dir}: in use by another process", *command, "--work-dir", work_dir)
