"""Tests of the Augmented SBERT study on small data: table, trials and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

from submission.errors import TrainingError
from submission.storage.artifact_store import ArtifactStore
from tests.unit.training.conftest import write_bws, write_mrpc
from training.__main__ import main
from training.data.datasets.sentence_pairs import LOADERS, PairDataset
from training.sbert.networks import TrainingConfig, get_encoder, score_pairs
from training.studies.augmented_sbert import metrics, trial
from training.studies.augmented_sbert.metrics import PUBLISHED
from training.studies.augmented_sbert.study import Cell, _summarise
from training.studies.augmented_sbert.trial import BM25_SEMANTIC, STRATEGIES, Encoders, Result, Settings, Trial

pytestmark = pytest.mark.usefixtures("block_network")

TEACHER = TrainingConfig("cross_entropy", 0.003, max_length=60, swap_pairs=True, bfloat16=False)
STUDENT = TrainingConfig("cosine", 0.003, max_length=30, bfloat16=False)
NETWORKS = ["baseline", "untrained", "cross_encoder", "bi_encoder", *STRATEGIES]
BOTH_WAYS = {"bws_cross": "mrpc", "mrpc": "bws_cross"}


@pytest.fixture(scope="session")
def similarity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("similarity")
    write_bws(directory)
    write_mrpc(directory)
    return directory


@pytest.fixture
def run(similarity: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs the study with small networks and one seed, by default on two tasks adapted to each other."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODER_DIR", encoder.parent)
    monkeypatch.setattr(trial, "TEACHER", TEACHER)
    small = partialmethod(Settings.__init__, student=STUDENT, n_seeds=1, silver_ratio=1.0)
    monkeypatch.setattr(Settings, "__init__", small)  # not the class: settings are pickled

    def augment(name: str, *flags: str, processes: int = 1) -> int:
        paths = ["-i", str(similarity), "--work-dir", str(tmp_path / name), "-o", str(tmp_path / f"{name}.csv")]
        tasks = [flag for task in BOTH_WAYS for flag in ("--part", task)]
        counts = ["--repetitions", "1", "--processes", str(processes)]
        return main(["study", "augmented-sbert", *paths, "--encoder", "tiny", "--device", "cpu", *(flags or tasks), *counts])

    return augment


def test_study_tabulates_tasks_and_keeps_other_rows(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("two", processes=2) == 0
    captured = capfd.readouterr()
    assert "bm25_semantic" in captured.out
    assert not re.search("it/s|Writing|Loading|train_runtime|widget", captured.err)
    assert len(re.findall("bws_cross, repetition 1, .*: test ", captured.err)) == len(NETWORKS) + 2
    table = pd.read_csv(tmp_path / "two.csv")
    for task, source in BOTH_WAYS.items():
        rows = table[table["task"] == task].set_index("network")
        assert rows.index.tolist() == [*NETWORKS, f"trained on {source}", f"adapted from {source}"]
        assert (rows["repetitions"] == 1).all()
        assert rows["test_sd"].isna().all()
        assert rows["measure"].unique().tolist() == ["F1" if task == "mrpc" else "Spearman"]
        assert rows.loc["bm25", "published_test"] == PUBLISHED[task]["bm25"].test
        assert rows.loc[f"adapted from {source}", ["published_test", "published_silver_pairs"]].isna().all()
        gold = 67 if task == "mrpc" else 50
        assert rows.loc["random", "silver_pairs"] == gold
        assert rows.loc[f"adapted from {source}", "silver_pairs"] == gold
        assert rows.loc["bi_encoder", "silver_pairs"] == 0
        assert rows.loc["bm25", "silver_pairs"] <= rows.loc["bm25_semantic", "silver_pairs"] <= 2 * gold
        assert rows["test"].between(0 if task == "mrpc" else -100, 100).all()
        assert rows["test"].nunique() > 5 or task == "mrpc"

    assert not list((tmp_path / "two").rglob("seed-*"))  # states are removed

    monkeypatch.setattr(Trial, "evaluate", None)  # all results are cached
    before = (tmp_path / "two.csv").read_bytes()
    assert run("two") == 0
    assert (tmp_path / "two.csv").read_bytes() == before
    lines = before.splitlines(keepends=True)
    (tmp_path / "two.csv").write_bytes(b"".join(line for line in lines if line.startswith((b"task,", b"bws_cross,"))))
    assert run("two", "--part", "mrpc") == 0
    assert (tmp_path / "two.csv").read_bytes() == before  # rows of the other task are kept


def test_study_rejects_bad_arguments_before_training(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none.csv").write_text("loss,pairs\n")
    assert run("none") == 3
    assert "none.csv: not a table of this study" in capsys.readouterr().err
    assert (tmp_path / "none.csv").read_text() == "loss,pairs\n"
    (tmp_path / "none.csv").unlink()
    with pytest.raises(SystemExit):
        run("none", "--part", "bws_inn")
    assert "invalid choice: 'bws_inn'" in capsys.readouterr().err
    assert run("none", "--part", "mrpc", "--encoder", "huge") == 4
    assert "huge/config.json: missing" in capsys.readouterr().err
    assert run("none", "--part", "bws_in", "--teacher", str(tmp_path / "absent")) == 4


@pytest.fixture
def make_trial(similarity: Path, encoder: Path, tmp_path: Path) -> Callable[[str], Trial]:
    def make(task: str) -> Trial:
        cache = ArtifactStore(tmp_path / task, {}, overwrite=True)
        settings = Settings(TEACHER, STUDENT, n_seeds=1, silver_ratio=1.0)
        return Trial(LOADERS[task](similarity, 0), 0, settings, Encoders(encoder, encoder), cache, torch.device("cpu"))

    return make


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_silver_pairs_exclude_gold_and_have_teacher_labels(make_trial: Callable[[str], Trial], strategy: str) -> None:
    bws = make_trial("bws_cross")
    silver = bws.silver_pairs(strategy)
    gold = {frozenset(pair) for pair in zip(bws.gold.train["first"], bws.gold.train["second"], strict=True)}
    pairs = [frozenset(pair) for pair in zip(silver["first"], silver["second"], strict=True)]
    assert len({*pairs}) == len(pairs) > 0
    assert len(pairs) <= 50 * (2 if strategy == BM25_SEMANTIC else 1)
    assert not gold & {*pairs}
    assert {len(pair) for pair in pairs} == {2}
    known = {*bws.gold.train["first"], *bws.gold.train["second"]}
    assert {sentence for pair in pairs for sentence in pair} <= known
    assert silver["label"].to_numpy() == pytest.approx(
        score_pairs(bws.load_or_train_on_gold("cross_encoder"), silver), abs=1e-6
    )
    assert bws.silver_pairs(strategy).equals(silver)
    if strategy in ("random", "kde"):  # subsets of the random pairs
        sample = bws._labelled_pairs("random")
        assert len(sample) == 150
        all_pairs = bws._sentences.to_frame(np.stack([sample["first"], sample["second"]], axis=1))
        assert {*zip(silver["first"], silver["second"], strict=True)} < {*all_pairs.itertuples(index=False, name=None)}


def test_adapted_pairs_are_labelled_by_the_source_teacher(
    make_trial: Callable[[str], Trial], encoder: Path, other_encoder: Path
) -> None:
    source, target = make_trial("bws_cross"), make_trial("mrpc")
    adapted = target._adapted_pairs(source)
    assert adapted["label"].to_numpy() == pytest.approx(
        score_pairs(source.load_or_train_on_gold("cross_encoder"), target.gold.train), abs=1e-6
    )
    assert adapted[["first", "second"]].equals(target.gold.train[["first", "second"]])
    source._encoders = Encoders(other_encoder, encoder)
    for training, initial in ((TEACHER, other_encoder), (STUDENT, encoder)):
        weights = safetensors.torch.load_file(initial / "model.safetensors")
        last = get_encoder(source._build(training)).encoder.layer[-1]
        assert torch.equal(last.output.dense.weight, weights["encoder.layer.3.output.dense.weight"])


def test_study_initialises_teachers_from_another_encoder(run: Callable[..., int], other_encoder: Path, tmp_path: Path) -> None:
    results = {}
    for name, flags in {"same": [], "another": ["--teacher", str(other_encoder)]}.items():
        assert run(name, "--task", "bws_in", *flags) == 0
        results[name] = pd.read_csv(tmp_path / f"{name}.csv").set_index("network")["test"]
    without_teacher = ["baseline", "untrained", "bi_encoder"]
    assert results["same"][without_teacher].tolist() == results["another"][without_teacher].tolist()
    assert results["same"]["cross_encoder"] != results["another"]["cross_encoder"]


def test_summary_averages_repetitions_next_to_published() -> None:
    results = {
        Cell("mrpc", 0, "untrained"): Result(80.0, 81.0, 0, 1.0),
        Cell("mrpc", 0, "bm25"): Result(84.0, 82.0, 100, 20.0),
        Cell("mrpc", 1, "bm25"): Result(86.0, 83.0, 104, 30.0),
    }
    table = _summarise({"mrpc": synthetic_pairs(is_binary=True)}, results).set_index("network")
    assert table.loc["bm25", ["test", "dev", "silver_pairs", "seconds", "repetitions"]].tolist() == [82.5, 85.0, 102.0, 25.0, 2]
    assert table.loc["bm25", ["test_sd", "dev_sd"]].tolist() == pytest.approx([0.5**0.5, 2**0.5])
    columns = [f"published_{column}" for column in ("test", "test_sd", "dev", "dev_sd", "silver_pairs")]
    assert table.loc["bm25", columns].tolist() == [85.46, 0.52, 88.04, 0.51, 10_637]
    assert table.loc["untrained", [*columns, "test_sd"]].isna().all()
    assert {task: {*rows} for task, rows in PUBLISHED.items()} == {task: {*NETWORKS} - {"untrained"} for task in LOADERS}


def synthetic_pairs(is_binary: bool) -> PairDataset:
    labels = [1.0, 0.0, 1.0, 1.0, 0.0] if is_binary else [0.2, 0.4, 0.6, 0.8, 1.0]
    pairs = pd.DataFrame({"first": ["a b"] * 5, "second": ["a b", "a c", "d e", "b A", "a"], "label": labels, "topic": ""})
    return PairDataset("synthetic", is_binary, pairs, pairs, pairs.iloc[::-1])


def test_metrics_match_hand_computed_values() -> None:
    gold = synthetic_pairs(is_binary=False)  # by Spearman
    scores = np.array([1.0, 2.0, 3.0, 5.0, 4.0])
    assert metrics.dev_metric(gold, scores) == pytest.approx(90)
    assert metrics.dev_and_test_metrics(gold, scores, scores) == pytest.approx((90, -90))
    assert metrics.baseline_metrics(gold)[0] == pytest.approx(-5.13, abs=0.01)  # overlaps 1, 1/3, 0, 1, 1/2
    for value in (0.5, float("nan")):
        with pytest.raises(TrainingError, match="lower the learning rate"):
            metrics.dev_metric(gold, np.full(5, value))

    gold = synthetic_pairs(is_binary=True)  # by F1 with dev's threshold
    scores = np.array([0.9, 0.3, 0.8, 0.5, 0.6])
    assert metrics.dev_metric(gold, scores) == pytest.approx(100 * 6 / 7)  # threshold 0.5 or 0.3: three correct, one wrong
    dev, test = metrics.dev_and_test_metrics(gold, scores, np.array([0.3, 0.9, 0.1, 0.1, 0.9]))  # labels 0, 1, 1, 0, 1
    assert (dev, test) == pytest.approx((100 * 6 / 7, 80))
    assert metrics.baseline_metrics(gold) == pytest.approx((75, 75))  # everything positive: 2·0.6 / 1.6
