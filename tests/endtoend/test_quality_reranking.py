"""End-to-end tests of an argument quality network: training, reproduction, and re-ranking by quality."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.storage.atomic_files import sha256_file
from submission.systems.catalogue import SYSTEMS
from submission.systems.quality_reranking import QualityRerankingStage
from tests.conftest import read_files
from tests.endtoend.conftest import Execute
from tests.unit.training.data.quality_files import write_ibm, write_ukp
from training.__main__ import main
from training.data.datasets import ibm_argq, ukp_conv_arg_rank
from training.data.quality import prepare_quality
from training.tasks import load_recipe

RECIPE = """ranker = "tfr_bert"
[lengths]
query = 20
premise = 60
[encoder]
name = "tiny"
frozen_layers = 1
learning_rate = 0.001
[quality]
datasets = ["ukp", "ibm"]
list_size = 4
loss = "list_mle"
[training]
epochs = 2
validations_per_epoch = 1
learning_rate = 0.005
batch_size = 6
micro_batch_size = 2
"""
STAGE = SYSTEMS["tfr_bert"].stage
assert isinstance(STAGE, QualityRerankingStage)


@pytest.fixture
def work(encoder: Path, tmp_path: Path) -> Path:
    """Train an argument quality network on two data sets, and return the working directory."""
    write_ukp(tmp_path / "published", debates=5)
    write_ibm(tmp_path / "published")
    prepare_quality(tmp_path / "published", ["ukp", "ibm"], tmp_path / "work")
    (tmp_path / "order.toml").write_text(RECIPE)
    assert main(["fit", str(tmp_path / "order.toml"), "--work-dir", str(tmp_path / "work"), "--device", "cpu"]) == 0
    return tmp_path / "work"


def test_network_trained_on_two_data_sets_names_both(work: Path) -> None:
    checkpoint = work / "checkpoints" / "order"
    metrics, card = json.loads((checkpoint / "metrics.json").read_text()), (checkpoint / "README.md").read_text()
    assert {"Pearson", "Spearman", "Kendall"} <= set(metrics["validation"])
    sources = "UKPConvArgRank (UKP Lab, CC BY-SA) and IBM-ArgQ 5.3k (IBM Research, terms of IBM Research)"
    assert f"Trained on {sources}. Hashes" in card
    assert "- quality.loss: list_mle" in card
    load_recipe(str(work.parent / "order.toml")).task.prepare_again(work.parent / "published", work.parent / "again", {})
    assert read_files(work.parent / "again" / "quality") == read_files(work / "quality")
    files = [*ukp_conv_arg_rank.list_files(work.parent / "published"), *ibm_argq.list_files(work.parent / "published")]
    assert json.loads((checkpoint / "provenance.json").read_text())["training_data"] == {
        "input": {file.name: sha256_file(file) for file in files},
        "data": "UKPConvArgRank and IBM-ArgQ 5.3k",
        "licence": "CC BY-SA and terms of IBM Research",
    }


def test_only_the_top_documents_are_reordered(execute: Execute) -> None:
    execution = execute()
    before, after = execution.get_ranking(STAGE.relevance), execution.get_ranking(STAGE)
    pairs = before[before["rank"] <= 7][["qid", "docno"]]
    quality = pd.Series(STAGE.quality.score(execution, pairs).astype(float), index=pairs.index)
    assert set(after["qid"]) == {"1", "2", "3"}
    for qid, old in before.groupby("qid"):
        new, first = after[after["qid"] == qid].reset_index(drop=True), old.head(7)
        relevance, quality_values = (values - values.mean() for values in (first["score"], quality[first.index]))
        expected = relevance / relevance.std(ddof=0) + 2 * quality_values / quality_values.std(ddof=0)
        expected.index = first["docno"]
        assert new["docno"][:7].tolist() == expected.sort_values(ascending=False).index.tolist() != first["docno"].tolist()
        np.testing.assert_allclose(new["score"][:7], expected.sort_values(ascending=False))
        assert new["docno"][7:].tolist() == old["docno"][7:].tolist() != []
        assert new["score"][7] <= new["score"][6] - 1
    assert np.array_equal(STAGE.score(execution, after[["qid", "docno"]]), after["score"])
    unlisted = sorted({*execution.documents.searchable_docnos} - {*after["docno"]})[:1]
    [score] = STAGE.score(execution, pd.DataFrame({"qid": ["1"], "docno": unlisted}))
    assert score < after["score"][after["qid"] == "1"].min()
