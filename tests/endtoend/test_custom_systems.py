"""Tests that commands support custom stages and systems that are registered in the catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from submission.data.runs import read_run
from submission.rankings import rank_by_score
from submission.systems.catalogue import SYSTEMS, System
from submission.systems.execution import Execution, Stage
from submission.systems.explanation import ScoreExplanation
from submission.systems.latent import LatentStage
from submission.systems.neural import RerankStage
from tests.endtoend.conftest import Execute, RankAll
from training.__main__ import main as training


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
def runs(rank_all: RankAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pd.Series]:
    """Rank with a custom stage and with a network that re-ranks SNRM's ranking; map systems to scores."""
    for name, stage in (("longest", LengthStage()), ("snrm_knrm", RerankStage(LatentStage("snrm"), "knrm"))):
        monkeypatch.setitem(SYSTEMS, name, System(name, stage, f"Rank with {name}."))
    names = ("longest", "snrm_knrm", "snrm", "knrm")
    assert rank_all("out", "--depth", "1000", *(flag for name in names for flag in ("--system", name))) == 0
    files = {name: tmp_path / "out" / f"aragorn-{name}.txt" for name in names}
    return {name: read_run(file).set_index(["qid", "docno"])["score"] for name, file in files.items()}


def test_custom_systems_are_ranked_and_described(runs: dict[str, pd.Series], tmp_path: Path) -> None:
    assert set(runs["snrm_knrm"].index) == set(runs["snrm"].index) != set(runs["knrm"].index)
    shared = runs["knrm"].index.intersection(runs["snrm_knrm"].index)
    assert len(shared) > 10
    np.testing.assert_allclose(runs["knrm"][shared], runs["snrm_knrm"][shared], rtol=0, atol=1e-5)  # scored by the same network
    metadata = yaml.safe_load((tmp_path / "out" / "ir-metadata.yml").read_text())
    methods = {entry["method"]: entry for entry in metadata["method"]["retrieval"]}
    assert (methods["longest"]["description"], "checkpoints" in methods["longest"]) == ("Rank with longest.", False)
    assert (methods["snrm_knrm"]["reranks"], [*methods["snrm_knrm"]["checkpoints"]]) == ("snrm", ["snrm", "knrm"])


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
