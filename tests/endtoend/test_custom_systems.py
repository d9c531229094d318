"""Tests that commands support custom stages and systems that are registered in the catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from submission.data.runs import read_run
from submission.fusion.regression import RegressionEnsemble, RegressionMember
from submission.rankings import rank_by_score
from submission.systems.catalogue import SYSTEMS, System
from submission.systems.ensemble import EnsembleStage
from submission.systems.execution import CheckpointStore, Execution, Stage
from submission.systems.explanation import ScoreExplanation
from submission.systems.latent import LatentStage
from submission.systems.neural import RerankStage
from tests.conftest import UNTRAINED
from tests.endtoend.conftest import Execute, RankAll
from training.__main__ import main as training
from training.fusion.ensemble import save_regression


@dataclass(frozen=True)
class LengthStage(Stage):
    """A stage that ranks all documents by the length of the premise."""

    checkpoint = None

    def search(self, execution: Execution) -> pd.DataFrame:
        pairs = execution.topics[["qid"]].merge(pd.DataFrame({"docno": execution.documents.searchable_docnos}), how="cross")
        return rank_by_score(pairs.assign(score=self.score(execution, pairs)), execution.topics)

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        premises = execution.documents.read_texts(set(pairs["docno"])).set_index("docno")["premise"]
        return pairs["docno"].map(premises.str.len()).to_numpy(float)

    def explain(self, execution: Execution, qid: str, docno: str) -> ScoreExplanation:
        raise NotImplementedError


@pytest.fixture
def runs(checkpoints_copy: Path, rank_all: RankAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pd.Series]:
    """Rank with a custom stage, a network that re-ranks SNRM's ranking, and an ensemble of both; map systems to scores."""
    rerank = RerankStage(LatentStage("snrm"), "knrm")
    ensemble = EnsembleStage((("longest", LengthStage()), ("snrm_knrm", rerank)), "both")
    for name, stage in (("longest", LengthStage()), ("snrm_knrm", rerank), ("both", ensemble)):
        monkeypatch.setitem(SYSTEMS, name, System(name, stage, f"Rank with {name}."))
    fingerprints = ensemble.get_member_fingerprints(CheckpointStore(checkpoints_copy))
    members = (
        RegressionMember("longest", fingerprints["longest"], 0.75, 0.0, 400.0),
        RegressionMember("snrm_knrm", fingerprints["snrm_knrm"], 0.5, -1, 1),
    )
    save_regression(checkpoints_copy / "both", RegressionEnsemble("1.0", 0.125, members), {}, UNTRAINED)
    names = ("longest", "snrm_knrm", "both", "snrm", "knrm")
    assert rank_all("out", "--depth", "1000", *(flag for name in names for flag in ("--system", name))) == 0
    files = {name: tmp_path / "out" / f"aragorn-{name}.txt" for name in names}
    return {name: read_run(file).set_index(["qid", "docno"])["score"] for name, file in files.items()}


def test_custom_systems_are_ranked_and_described(runs: dict[str, pd.Series], tmp_path: Path) -> None:
    assert set(runs["snrm_knrm"].index) == set(runs["snrm"].index) != set(runs["knrm"].index)
    shared = runs["knrm"].index.intersection(runs["snrm_knrm"].index)
    assert len(shared) > 10
    np.testing.assert_allclose(runs["knrm"][shared], runs["snrm_knrm"][shared], rtol=0, atol=1e-5)  # scored by the same network
    top_pairs = {name: set(runs[name].groupby("qid", sort=False).head(100).index) for name in ("longest", "snrm_knrm")}
    assert set(runs["both"].index) == top_pairs["longest"] | top_pairs["snrm_knrm"]
    for pair, score in runs["both"].items():
        expected = 0.125
        expected += 0.75 * min(1, runs["longest"][pair] / 400) if pair in top_pairs["longest"] else 0
        expected += 0.5 * (runs["snrm_knrm"][pair] + 1) / 2 if pair in top_pairs["snrm_knrm"] else 0
        assert score == pytest.approx(expected, abs=1e-5)
    metadata = yaml.safe_load((tmp_path / "out" / "ir-metadata.yml").read_text())
    methods = {entry["method"]: entry for entry in metadata["method"]["retrieval"]}
    assert (methods["longest"]["description"], "checkpoints" in methods["longest"]) == ("Rank with longest.", False)
    assert (methods["snrm_knrm"]["reranks"], [*methods["snrm_knrm"]["checkpoints"]]) == ("snrm", ["snrm", "knrm"])
    assert methods["both"]["interpolates"] == ["longest", "snrm_knrm"]


def test_overlap_compares_all_runs(runs: dict[str, pd.Series], tmp_path: Path) -> None:
    assert training(["overlap", str(tmp_path / "out")]) == 0
    jaccard = pd.read_csv(tmp_path / "out" / "analysis" / "jaccard.csv", index_col=0)
    assert set(jaccard.index) == set(runs)
    assert (jaccard.to_numpy().diagonal() == 1).all()
    assert jaccard.loc["knrm", "longest"] < 1


@dataclass(frozen=True)
class FaultyStage(LengthStage):
    """A stage that counts its searches and returns invalid ranks."""

    searches: list[str] = field(default_factory=list, compare=False, repr=False)

    def search(self, execution: Execution) -> pd.DataFrame:
        self.searches.append("search")
        return super().search(execution).assign(rank=7)


def test_equal_stages_are_computed_once_and_failures_are_cached(execute: Execute) -> None:
    execution, faulty = execute(), FaultyStage()
    assert execution.get_ranking(LengthStage()) is execution.get_ranking(LengthStage())
    assert execution.compute_cache_key(RerankStage(LengthStage(), "knrm")) != execution.compute_cache_key(LengthStage())
    for _ in range(2):
        with pytest.raises(ValueError, match="topic 1: ranks must be 1, 2, 3"):
            execution.get_ranking(faulty)
    assert faulty.searches == ["search"]


def test_invalid_system_names_fail() -> None:
    with pytest.raises(ValueError, match="invalid system name 'my-system'"):
        System("my-system", LengthStage(), "x")
