"""Tests of the Augmented SBERT study and of its sweeps on small data."""

from functools import partialmethod

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from msgspec.structs import astuple

from aragorn.cache import Cache
from aragorn.errors import TrainingError
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn_training.__main__ import main
from aragorn_training.data.datasets.sentence_pairs import LOADERS, PairDataset
from aragorn_training.sbert.networks import TrainingConfig, get_encoder, predict_scores
from aragorn_training.studies.augmented_sbert import metrics, trial
from aragorn_training.studies.augmented_sbert.trial import (
    BM25_SEMANTIC,
    STRATEGIES,
    Cell,
    Settings,
    Study,
    Trial,
    TrialResult,
    summarise,
)
from aragorn_training.studies.augmented_sbert_sweeps import PARTIAL, SWEEPS, build_cell
from tests.conftest import argv
from tests.unit.training.conftest import write_bws, write_mrpc

pytestmark = pytest.mark.usefixtures("block_network")

TEACHER = TrainingConfig("cross_entropy", 0.003, max_length=60, swap_pairs=True, bfloat16=False)
STUDENT = TrainingConfig("cosine", 0.03, max_length=30, batch_size=4, bfloat16=False)
NETWORKS = ["baseline", "untrained", "cross_encoder", "bi_encoder", *STRATEGIES]
TABLE_ROWS = [*NETWORKS, "trained on mrpc", "adapted from mrpc"]


@pytest.fixture(scope="session")
def similarity(tmp_path_factory):
    directory = tmp_path_factory.mktemp("similarity")
    write_bws(directory, 5)
    write_mrpc(directory, 24, 18)
    return directory


@pytest.fixture
def run(similarity, encoder, tmp_path, monkeypatch):
    """Return a function that runs a study with small networks and one seed."""
    monkeypatch.setattr("aragorn.inference.pretrained.ENCODER_DIR", encoder.parent)
    monkeypatch.setattr(trial, "TEACHER", TEACHER)
    small = partialmethod(Settings.__init__, student=STUDENT, n_seeds=1, silver_ratio=1.0)
    monkeypatch.setattr(Settings, "__init__", small)  # not the class: settings are pickled

    def run_study(name, *flags, study="augmented-sbert"):
        paths = argv(
            "-i", similarity, "--work-dir", tmp_path / name, "-o", tmp_path / f"{name}.csv"
        )
        options = ["--student", "tiny", "--device", "cpu", "--repetitions", "1", "--processes", "1"]
        return main(["study", study, *paths, *options, *flags])

    return run_study


def test_study_caches_results_and_keeps_other_rows(run, tmp_path, monkeypatch):
    evaluated = []

    def measure(study, cell):
        evaluated.append(cell.network)
        return TrialResult(50.0, float(len(evaluated)), 0, 1.0)

    monkeypatch.setattr(trial, "evaluate", measure)
    file = tmp_path / "table.csv"
    assert run("table", "--part", "bws_cross") == 0
    assert pd.read_csv(file)["network"].tolist() == TABLE_ROWS
    assert len(evaluated) == len(TABLE_ROWS)
    header, *lines = file.read_text().splitlines(keepends=True)
    other_lines = [line.replace("bws_cross", "bws_in") for line in lines]
    file.write_text("".join([header, *other_lines, lines[0]]))
    assert run("table", "--part", "bws_cross") == 0
    assert file.read_text() == "".join([header, *lines, *other_lines])
    assert len(evaluated) == len(TABLE_ROWS)  # all results are cached


def test_study_rejects_bad_arguments_before_training(run, tmp_path, capsys):
    (tmp_path / "other.csv").write_text("loss,pairs\n")
    for name, flags, code, message in (
        ("other", ("--part", "mrpc"), 5, "other.csv: a file of another program"),
        ("none", ("--part", "mrpc", "--student", "huge"), 4, "huge/config.json: missing"),
        (
            "none",
            ("--part", "bws_in", "--teacher", str(tmp_path / "absent")),
            4,
            "absent/config.json: missing",
        ),
    ):
        assert run(name, *flags) == code
        assert message in capsys.readouterr().err
    assert (tmp_path / "other.csv").read_text() == "loss,pairs\n"


@pytest.fixture
def make_trial(similarity, encoder, tmp_path):
    def make(task, teacher=encoder, network="", source=""):
        gold = {name: load(similarity, 0) for name, load in LOADERS.items()}
        settings = Settings(TEACHER, STUDENT, n_seeds=1, silver_ratio=1.0)
        encoders = [PretrainedEncoder(str(folder)) for folder in (teacher, encoder)]
        study = Study(gold, *encoders, settings, "cpu", Cache(tmp_path))
        return Trial(study, Cell(task, network, 0, settings, source))

    return make


def test_silver_pairs_exclude_gold_and_have_teacher_labels(make_trial):
    bws = make_trial("bws_cross")
    gold = {frozenset(pair) for pair in bws.gold.train[["first", "second"]].to_numpy()}
    teacher = bws.load_or_train_on_gold("cross_encoder")
    for strategy in STRATEGIES:
        silver = bws.build_silver_pairs(strategy)
        pairs = [frozenset(pair) for pair in zip(silver["first"], silver["second"], strict=True)]
        assert 0 < len(pairs) == len({*pairs}) <= 25 * (2 if strategy == BM25_SEMANTIC else 1)
        assert {len(pair) for pair in pairs} == {2}
        assert not gold & {*pairs}
        assert {text for pair in pairs for text in pair} <= {text for pair in gold for text in pair}
        assert silver["label"].to_numpy() == pytest.approx(
            predict_scores(teacher, silver), abs=1e-6
        )
        assert bws.build_silver_pairs(strategy).equals(silver)


def test_adapted_pairs_are_labelled_by_the_source_teacher(make_trial, tmp_path, monkeypatch):
    source = make_trial("bws_cross")
    target = make_trial("mrpc", network="adapted", source="bws_cross")
    trained = []
    monkeypatch.setattr(
        Trial, "_train", lambda self, training, pairs, seeds_dir: trained.append(pairs)
    )
    teacher = source.build_initial_network(TEACHER)
    monkeypatch.setattr(Trial, "load_or_train_on_gold", lambda self, network: teacher)
    _, labels = target.load_or_train(tmp_path)
    assert labels == pytest.approx(predict_scores(teacher, target.gold.train), abs=1e-6)
    [adapted] = trained
    assert adapted[["first", "second"]].equals(target.gold.train[["first", "second"]])
    assert adapted["label"].tolist() == labels.tolist()


def test_teachers_may_start_from_another_encoder(make_trial, encoder, other_encoder):
    bws = make_trial("bws_cross", other_encoder)
    for training, initial in ((TEACHER, other_encoder), (STUDENT, encoder)):
        weights = safetensors.torch.load_file(initial / "model.safetensors")
        last = get_encoder(bws.build_initial_network(training)).encoder.layer[-1]
        assert torch.equal(last.output.dense.weight, weights["encoder.layer.3.output.dense.weight"])


def build_gold(is_binary):
    labels = [1.0, 0.0, 1.0, 1.0, 0.0] if is_binary else [0.2, 0.4, 0.6, 0.8, 1.0]
    second = ["a b", "a c", "d e", "b A", "a"]
    pairs = pd.DataFrame({"first": "a b", "second": second, "label": labels, "topic": ""})
    return PairDataset("synthetic", is_binary, pairs, pairs, pairs.iloc[::-1])


def test_summary_has_means_over_repetitions():
    rows = [
        ("mrpc", "untrained", *astuple(TrialResult(80.0, 81.0, 0, 1.0))),
        ("mrpc", "bm25", *astuple(TrialResult(84.0, 82.0, 100, 20.0, 0.3))),
        ("mrpc", "bm25", *astuple(TrialResult(86.0, 83.0, 104, 30.0, 0.7))),
    ]
    keys = ["task", "network"]
    results = pd.DataFrame(rows, columns=[*keys, *TrialResult.__struct_fields__])
    columns = ["silver_pairs", "seconds", "silver_low"]
    table = summarise(results, keys, columns, {"mrpc": build_gold(is_binary=True)})
    assert [*table] == [
        "task", "measure", "network", "test", "test_sd", "dev", "dev_sd", "repetitions", *columns
    ]  # fmt: skip
    assert table[["task", "measure", "network"]].to_numpy().tolist() == [
        ["mrpc", "F1", "untrained"], ["mrpc", "F1", "bm25"]
    ]  # fmt: skip
    bm25 = table.iloc[1][["test", "dev", "test_sd", "dev_sd", "repetitions", *columns]]
    assert bm25.tolist() == pytest.approx([82.5, 85, 0.5**0.5, 2**0.5, 2, 102, 25, 0.5])
    assert table.iloc[0][["test_sd", "dev_sd", "silver_low"]].isna().all()


def test_graded_labels_are_evaluated_by_spearman():
    gold = build_gold(is_binary=False)
    scores = np.array([1.0, 2.0, 3.0, 5.0, 4.0])
    assert metrics.compute_dev_metric(gold, scores) == pytest.approx(90)
    assert metrics.compute_metrics(gold, scores, scores) == pytest.approx((90, -90))
    # overlaps 1, 1/3, 0, 1, 1/2
    assert metrics.compute_baseline_metrics(gold)[0] == pytest.approx(-5.13, abs=0.01)
    for value in (0.5, float("nan")):
        with pytest.raises(TrainingError, match="lower the learning rate"):
            metrics.compute_dev_metric(gold, np.full(5, value))


def test_binary_labels_are_evaluated_by_f1_at_the_dev_threshold():
    gold = build_gold(is_binary=True)
    dev = np.array([0.9, 0.3, 0.8, 0.5, 0.6])
    test = np.array([0.3, 0.9, 0.35, 0.1, 0.9])
    # threshold 0.5 or 0.3: three correct, one wrong
    assert metrics.compute_dev_metric(gold, dev) == pytest.approx(100 * 6 / 7)
    # test labels 0, 1, 1, 0, 1
    assert metrics.compute_metrics(gold, dev, test) == pytest.approx((100 * 6 / 7, 80))
    # everything positive: 2·0.6 / 1.6
    assert metrics.compute_baseline_metrics(gold) == pytest.approx((75, 75))


def test_partial_auc_is_half_for_a_random_order_and_one_for_a_perfect_one():
    labels = np.array([1, 1] + [0] * 40)
    order = -np.arange(42.0)
    assert metrics.compute_partial_auc(labels, order) == 1
    assert metrics.compute_partial_auc(labels, np.zeros(42)) == pytest.approx(0.5)
    half = np.concatenate(
        [order[:1], [-100.0], order[2:]]
    )  # one related pair first, the other last: area .025 of .00125 to .05
    assert metrics.compute_partial_auc(labels, half) == pytest.approx(
        0.5 + 0.5 * (0.025 - 0.00125) / (0.05 - 0.00125)
    )


@pytest.mark.slow
def test_sweeps_share_gold_networks_and_keep_other_rows(run, tmp_path, monkeypatch):
    monkeypatch.setitem(
        SWEEPS, "bm25_k", SWEEPS["bm25_k"]._replace(values=(1, 4), tasks=("bws_in",))
    )
    steps = SWEEPS["step_fraction"]._replace(values=(0.5, 1.0), tasks=("bws_cross",))
    monkeypatch.setitem(SWEEPS, "step_fraction", steps)
    for name in ("step_fraction", "bm25_k"):
        assert run("sweeps", "--sweep", name, study="augmented-sbert-sweeps") == 0
    rows = pd.read_csv(tmp_path / "sweeps.csv")
    assert rows["sweep"].tolist() == ["bm25_k"] * 2 + ["step_fraction"] * 2
    silver_pairs = rows["silver_pairs"].tolist()
    assert 0 < silver_pairs[0] < silver_pairs[1]
    # NaN without pairs
    expected = [True, True, False, False]
    assert rows["silver_low"].add(rows["silver_high"]).between(0, 1).tolist() == expected
    partial = rows[rows["network"] == PARTIAL]
    assert partial["repetitions"].tolist() == [5, 5]
    assert partial["correlation_with_end"].iloc[-1] == 1
    assert partial["test"].isna().all()
    assert len([*tmp_path.glob("sweeps/cross_encoder-*")]) == 1  # of both values of k
    assert not [*tmp_path.glob("sweeps/seeds-*")]


def test_cells_of_sweeps_differ_in_one_setting():
    settings = Settings(seed=3)
    cells = {
        name: build_cell(sweep, "bws_in", sweep.networks[0], 1, 7, settings)
        for name, sweep in SWEEPS.items()
    }
    assert cells["semantic_k"].settings == Settings(seed=3, k=7, silver_ratio=1e6)
    assert cells["kde_ratio"].settings == Settings(seed=3, random_ratio=7, silver_ratio=1e6)
    assert cells["single_seed"].settings == Settings(seed=3, n_seeds=7)
    assert cells["gold_pairs"] == Cell("bws_in", "cross_encoder", 1, settings, gold_pairs=7)
    assert cells["step_fraction"] == Cell("bws_in", "bi_encoder", 1, settings, fraction=7)
