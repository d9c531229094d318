"""Tests of the sweeps of Augmented SBERT on small data."""

from functools import partialmethod
from pathlib import Path

import pandas as pd
import pytest

from tests.unit.training.conftest import write_bws, write_mrpc
from training.__main__ import main
from training.cli.study import SBERT_SWEEPS
from training.data.datasets.sentence_pairs import LOADERS
from training.sbert.networks import TrainingConfig
from training.studies.augmented_sbert import sweeps, trial
from training.studies.augmented_sbert.sweeps import PARTIAL, SWEEPS, Cell, list_cells, summarise
from training.studies.augmented_sbert.trial import Settings, TrialResult

pytestmark = pytest.mark.usefixtures("block_network")

TEACHER = TrainingConfig("cross_entropy", 0.003, max_length=60, bfloat16=False)
STUDENT = TrainingConfig("cosine", 0.03, max_length=30, batch_size=4, bfloat16=False)


@pytest.fixture
def similarity(tmp_path: Path) -> Path:
    write_bws(tmp_path / "similarity", 5)
    write_mrpc(tmp_path / "similarity", 24, 18)
    return tmp_path / "similarity"


def test_command_line_names_all_sweeps() -> None:
    assert tuple(SWEEPS) == SBERT_SWEEPS


def test_sweeps_share_gold_networks_and_keep_other_rows(
    similarity: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("submission.inference.pretrained.ENCODER_DIR", encoder.parent)
    monkeypatch.setattr(trial, "TEACHER", TEACHER)
    monkeypatch.setattr(Settings, "__init__", partialmethod(Settings.__init__, student=STUDENT, n_seeds=1))
    monkeypatch.setitem(SWEEPS, "bm25_k", SWEEPS["bm25_k"]._replace(values=(1, 4), tasks=("bws_in",)))
    monkeypatch.setitem(SWEEPS, "step_fraction", SWEEPS["step_fraction"]._replace(values=(0.5, 1.0), tasks=("bws_cross",)))
    output = tmp_path / "sweeps.csv"

    def run(name: str) -> int:
        paths = ["-i", str(similarity), "--work-dir", str(tmp_path / "work"), "-o", str(output)]
        options = ["--encoder", "tiny", "--device", "cpu", "--repetitions", "1", "--processes", "1"]
        return main(["study", "augmented-sbert-sweeps", *paths, *options, "--sweep", name])

    assert run("step_fraction") == 0
    assert run("bm25_k") == 0
    rows = pd.read_csv(output)
    assert rows["sweep"].tolist() == ["bm25_k"] * 2 + ["step_fraction"] * 2
    silver_pairs = rows["silver_pairs"].tolist()
    assert 0 < silver_pairs[0] < silver_pairs[1]
    partial = rows[rows["network"] == PARTIAL]
    assert partial["repetitions"].tolist() == [5, 5]
    assert partial["correlation_with_end"].iloc[-1] == 1
    assert partial["test"].isna().all()
    assert len(list((tmp_path / "work").glob("sweep-gold-*/cross_encoder.safetensors"))) == 1
    assert not list((tmp_path / "work").glob("sweep-bm25_k-*/cross_encoder.safetensors"))


def test_cells_include_the_gold_networks_that_sweeps_share() -> None:
    cells = list_cells(["semantic_k"], 2)
    assert {(cell.task, cell.repetition) for cell in cells if cell.sweep == "gold"} == {
        (task, repetition) for task in ("bws_cross", "bws_in") for repetition in (0, 1)
    }
    assert {cell.sweep for cell in list_cells(["gold_pairs"], 2)} == {"gold_pairs"}


def test_summary_has_published_results_by_value(similarity: Path) -> None:
    gold = {"bws_cross": LOADERS["bws_cross"](similarity, 0)}
    results = {Cell("bm25_k", "bws_cross", 0, k, "bm25"): TrialResult(50.0, 60.0 + k, 10, 1.0) for k in (3, 7)}
    table = summarise(gold, results).set_index("value")
    assert table["published_test"].to_dict() == {3: 60.02, 7: 61.48}
    assert table["test"].to_dict() == {3: 63.0, 7: 67.0}


def test_sample_of_gold_pairs_depends_on_the_repetition(similarity: Path) -> None:
    gold = LOADERS["bws_cross"](similarity, 0)
    samples = [sweeps._sample_gold_pairs(gold, repetition, 10).train for repetition in (0, 1)]
    assert [len(sample) for sample in samples] == [10, 10]
    assert not samples[0].equals(samples[1])
