"""The whole table on small data: by command, its rows of other tasks; and what it is made of."""

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
from training.sbert.networks import TrainingConfig, get_encoder
from training.studies.augmented_sbert import metrics, trial
from training.studies.augmented_sbert.published import PUBLISHED
from training.studies.augmented_sbert.study import Cell, _summarise
from training.studies.augmented_sbert.trial import BM25_SEMANTIC, STRATEGIES, Encoders, Result, Settings, Trial

pytestmark = pytest.mark.usefixtures("raise_faults")

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
    """The command with small networks, a seed each, and the two tasks that are adapted to each other."""
    monkeypatch.setattr("submission.inference.pretrained.ENCODERS", encoder.parent)
    monkeypatch.setattr(trial, "TEACHER", TEACHER)
    small = partialmethod(Settings.__init__, student=STUDENT, seeds=1, silver=1.0)
    monkeypatch.setattr(Settings, "__init__", small)  # not the class: settings go to processes

    def augment(name: str, *flags: str, processes: int = 1) -> int:
        places = ["-i", str(similarity), "--work", str(tmp_path / name), "-o", str(tmp_path / f"{name}.csv")]
        tasks = [flag for task in BOTH_WAYS for flag in ("--task", task)]
        counts = ["--repetitions", "1", "--processes", str(processes)]
        return main(["study", "augmented-sbert", *places, "--encoder", "tiny", "--device", "cpu", *(flags or tasks), *counts])

    return augment


def test_the_table_and_the_rows_of_other_tasks(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("two", processes=2) == 0
    shown = capfd.readouterr()
    assert "bm25_semantic" in shown.out
    assert not re.search("it/s|Writing|Loading|train_runtime|widget", shown.err)
    assert len(re.findall("bws_cross, repetition 1, .*: test ", shown.err)) == len(NETWORKS) + 2
    found = pd.read_csv(tmp_path / "two.csv")
    for task, other in BOTH_WAYS.items():
        own = found[found["task"] == task].set_index("network")
        assert own.index.tolist() == [*NETWORKS, f"trained on {other}", f"adapted from {other}"]
        assert (own["repetitions"] == 1).all()
        assert own["test deviation"].isna().all()
        assert own["measure"].unique().tolist() == ["F1" if task == "mrpc" else "Spearman"]
        assert own.loc["bm25", "published_test"] == PUBLISHED[task]["bm25"].test
        assert own.loc[f"adapted from {other}", ["published_test", "published_silver_pairs"]].isna().all()
        gold = 67 if task == "mrpc" else 50
        assert own.loc["random", "silver_pairs"] == gold
        assert own.loc[f"adapted from {other}", "silver_pairs"] == gold
        assert own.loc["bi_encoder", "silver_pairs"] == 0
        assert own.loc["bm25", "silver_pairs"] <= own.loc["bm25_semantic", "silver_pairs"] <= 2 * gold
        assert own["test"].between(0 if task == "mrpc" else -100, 100).all()
        assert own["test"].nunique() > 5 or task == "mrpc"

    assert not list((tmp_path / "two").rglob("seed-*"))  # the states of seeds are gone

    monkeypatch.setattr(Trial, "_evaluate_network", None)  # from here on everything is kept
    before = (tmp_path / "two.csv").read_bytes()
    assert run("two") == 0
    assert (tmp_path / "two.csv").read_bytes() == before
    lines = before.splitlines(keepends=True)
    (tmp_path / "two.csv").write_bytes(b"".join(line for line in lines if line.startswith((b"task,", b"bws_cross,"))))
    assert run("two", "--task", "mrpc") == 0
    assert (tmp_path / "two.csv").read_bytes() == before  # of the other task the rows that were there


def test_what_is_refused_before_anything_is_trained(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none.csv").write_text("loss,pairs\n")
    assert run("none") == 3
    assert "none.csv: not a table of this study" in capsys.readouterr().err
    assert (tmp_path / "none.csv").read_text() == "loss,pairs\n"
    (tmp_path / "none.csv").unlink()
    assert run("none", "--task", "bws_inn") == 2
    assert "did you mean 'bws_in'?" in capsys.readouterr().err
    assert run("none", "--task", "mrpc", "--encoder", "huge") == 4
    assert "huge/config.json: missing" in capsys.readouterr().err
    assert run("none", "--task", "bws_in", "--teacher", str(tmp_path / "absent")) == 4


@pytest.fixture
def trial_of(similarity: Path, encoder: Path, tmp_path: Path) -> Callable[[str], Trial]:
    def make(task: str) -> Trial:
        kept = ArtifactStore(tmp_path / task, {}, overwrite=True)
        settings = Settings(TEACHER, STUDENT, n_seeds=1, silver_ratio=1.0)
        return Trial(LOADERS[task](similarity, 0), 0, settings, Encoders(encoder, encoder), kept, torch.device("cpu"))

    return make


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_silver_pairs_are_new_and_labelled_by_the_teacher(trial_of: Callable[[str], Trial], strategy: str) -> None:
    tried = trial_of("bws_cross")
    silver = tried.silver_pairs(strategy)
    gold = {frozenset(pair) for pair in zip(tried.gold.train["first"], tried.gold.train["second"], strict=True)}
    pairs = [frozenset(pair) for pair in zip(silver["first"], silver["second"], strict=True)]
    assert len({*pairs}) == len(pairs) > 0
    assert len(pairs) <= 50 * (2 if strategy == BM25_SEMANTIC else 1)
    assert not gold & {*pairs}
    assert {len(pair) for pair in pairs} == {2}
    known = {*tried.gold.train["first"], *tried.gold.train["second"]}
    assert {sentence for pair in pairs for sentence in pair} <= known
    assert silver["label"].to_numpy() == pytest.approx(trial.score_pairs(tried.load_teacher(), silver), abs=1e-6)
    assert tried.silver_pairs(strategy).equals(silver)
    if strategy in ("random", "kde"):  # which thin what was drawn
        drawn = tried._labelled_pairs("random")
        assert len(drawn) == 150
        everything = tried._sentences.to_frame(np.stack([drawn["first"], drawn["second"]], axis=1))
        assert {*zip(silver["first"], silver["second"], strict=True)} < {*everything.itertuples(index=False, name=None)}


def test_networks_start_where_they_are_told_and_the_other_task_s_teacher_labels_adapted_pairs(
    trial_of: Callable[[str], Trial], encoder: Path, another: Path
) -> None:
    tried, target = trial_of("bws_cross"), trial_of("mrpc")
    adapted = target._adapted_pairs(tried)
    assert adapted["label"].to_numpy() == pytest.approx(trial.score_pairs(tried.load_teacher(), target.gold.train), abs=1e-6)
    assert adapted[["first", "second"]].equals(target.gold.train[["first", "second"]])
    tried._encoders = Encoders(another, encoder)
    for training, start in ((TEACHER, another), (STUDENT, encoder)):
        weights = safetensors.torch.load_file(start / "model.safetensors")
        last = get_encoder(tried._build(training)).encoder.layer[-1]
        assert torch.equal(last.output.dense.weight, weights["encoder.layer.3.output.dense.weight"])


def test_the_command_starts_teachers_where_it_is_told(run: Callable[..., int], another: Path, tmp_path: Path) -> None:
    found = {}
    for name, flags in {"own": [], "other": ["--teacher", str(another)]}.items():
        assert run(name, "--task", "bws_in", *flags) == 0
        found[name] = pd.read_csv(tmp_path / f"{name}.csv").set_index("network")["test"]
    same = ["baseline", "untrained", "bi_encoder"]  # no teacher is asked
    assert found["own"][same].tolist() == found["other"][same].tolist()
    assert found["own"]["cross_encoder"] != found["other"]["cross_encoder"]


def test_means_and_deviations_over_repetitions_beside_the_paper_s() -> None:
    results = {
        Cell("mrpc", 0, "untrained"): Result(80.0, 81.0, 0, 1.0),
        Cell("mrpc", 0, "bm25"): Result(84.0, 82.0, 100, 20.0),
        Cell("mrpc", 1, "bm25"): Result(86.0, 83.0, 104, 30.0),
    }
    found = _summarise({"mrpc": made_up(classes=True)}, results).set_index("network")
    assert found.loc["bm25", ["test", "dev", "silver", "seconds", "repetitions"]].tolist() == [82.5, 85.0, 102.0, 25.0, 2]
    assert found.loc["bm25", ["test deviation", "dev deviation"]].tolist() == pytest.approx([0.5**0.5, 2**0.5])
    columns = [f"paper {what}" for what in ("test", "test deviation", "dev", "dev deviation", "silver")]
    assert found.loc["bm25", columns].tolist() == [85.46, 0.52, 88.04, 0.51, 10_637]
    assert found.loc["untrained", [*columns, "test deviation"]].isna().all()
    assert {task: {*rows} for task, rows in PUBLISHED.items()} == {task: {*NETWORKS} - {"untrained"} for task in LOADERS}


def made_up(classes: bool) -> PairDataset:
    labels = [1.0, 0.0, 1.0, 1.0, 0.0] if classes else [0.2, 0.4, 0.6, 0.8, 1.0]
    part = pd.DataFrame({"first": ["a b"] * 5, "second": ["a b", "a c", "d e", "b A", "a"], "label": labels, "topic": ""})
    return PairDataset("made up", classes, part, part, part.iloc[::-1])


def test_degrees_and_classes_are_measured_and_one_score_for_everything_is_a_dead_network() -> None:
    gold = made_up(classes=False)  # by Spearman
    scores = np.array([1.0, 2.0, 3.0, 5.0, 4.0])
    assert metrics.dev_metric(gold, scores) == pytest.approx(90)
    assert metrics.dev_and_test_metrics(gold, scores, scores) == pytest.approx((90, -90))
    assert metrics.baseline_metrics(gold)[0] == pytest.approx(-5.13, abs=0.01)  # overlaps 1, 1/3, 0, 1, 1/2
    for value in (0.5, float("nan")):
        with pytest.raises(TrainingError, match="lower the learning rate"):
            metrics.dev_metric(gold, np.full(5, value))

    gold = made_up(classes=True)  # by F1 with dev's threshold
    scores = np.array([0.9, 0.3, 0.8, 0.5, 0.6])
    assert metrics.dev_metric(gold, scores) == pytest.approx(100 * 6 / 7)  # from 0.5 on, or from 0.3: three right, one wrong
    dev, test = metrics.dev_and_test_metrics(gold, scores, np.array([0.3, 0.9, 0.1, 0.1, 0.9]))  # labels 0, 1, 1, 0, 1
    assert (dev, test) == pytest.approx((100 * 6 / 7, 80))
    assert metrics.baseline_metrics(gold) == pytest.approx((75, 75))  # everything positive: 2·0.6 / 1.6
