"""Custom stages and systems need only a catalogue entry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from submission.__main__ import main
from submission.data.runs import read_run
from submission.fusion.regression import RegressionEnsemble, RegressionMember
from submission.rankings import rank_by_score, truncate_rankings
from submission.systems.catalogue import CONCLUSION_BM25, FUSION_CANDIDATES, SYSTEMS, System
from submission.systems.checkpoint_store import CheckpointStore
from submission.systems.ensemble import EnsembleStage
from submission.systems.execution import Execution, Stage
from submission.systems.explanation import ExplanationRow, ScoreExplanation
from submission.systems.latent import LatentStage
from submission.systems.neural import RerankStage
from tests.endtoend.conftest import Capture, MakeExecution, RankAll
from training.fusion.ensemble import save_regression


@dataclass(frozen=True)
class Longest(Stage):
    checkpoint = None

    def search(self, execution: Execution) -> pd.DataFrame:
        pairs = execution.topics[["qid"]].merge(pd.DataFrame({"docno": execution.documents.searchable_docnos}), how="cross")
        return rank_by_score(pairs.assign(score=self.score(execution, pairs)), execution.topics)

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        premises = execution.documents.read_texts(set(pairs["docno"])).set_index("docno")["premise"]
        return pairs["docno"].map(premises.str.len()).to_numpy(float)

    def explain(self, execution: Execution, qid: str, docno: str) -> ScoreExplanation:
        score = self.score(execution, pd.DataFrame({"qid": [qid], "docno": [docno]}))[0]
        return ScoreExplanation(score, "sum of these contributions", [ExplanationRow(score, "characters")])


@pytest.fixture
def new(checkpoints_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a new stage, a network re-ranking another stage, and a fusion of both."""
    again = RerankStage(LatentStage("snrm"), "knrm")
    both = EnsembleStage((("longest", Longest()), ("snrm_knrm", again)), "both")
    for system in (
        System("longest", Longest(), "The longest premises first."),
        System("snrm_knrm", again, "KNRM over SNRM's documents."),
        System("both", both, "A regression over the two."),
    ):
        monkeypatch.setitem(SYSTEMS, system.name, system)
    made_with = both.get_member_checkpoints(CheckpointStore(checkpoints_copy))
    members = (
        RegressionMember("longest", made_with["longest"], 0.75, 0.0, 400.0),
        RegressionMember("snrm_knrm", made_with["snrm_knrm"], 0.5, -1, 1),
    )
    save_regression(checkpoints_copy / "both", RegressionEnsemble("1.0", 0.125, members), {}, {"training_data": {"input": {}}})


NEW = ["longest", "snrm_knrm", "both"]


@pytest.mark.usefixtures("new")
def test_custom_system_in_all_commands(
    rank_all: RankAll, tmp_path: Path, corpus_with_topics: Path, checkpoints_copy: Path, capsys: Capture
) -> None:
    flags = ["--depth", "1000", "--cache-dir", str(tmp_path / "work")]
    assert rank_all("out", *flags) == 0
    runs = {name: read_run(tmp_path / "out" / f"aragorn-{name}.txt").set_index(["qid", "docno"])["score"] for name in SYSTEMS}
    assert len(runs) == len(SYSTEMS)
    assert not runs["longest"].index.equals(runs["bm25"].index)
    assert not runs["snrm_knrm"].index.sort_values().equals(runs["knrm"].index.sort_values())
    assert runs["snrm_knrm"].index.sort_values().equals(runs["snrm"].index.sort_values())  # its documents in another order
    shared = runs["knrm"].index.intersection(runs["snrm_knrm"].index)
    assert len(shared) > 10
    np.testing.assert_allclose(runs["knrm"][shared], runs["snrm_knrm"][shared], rtol=0, atol=1e-5)  # the same network
    best = {name: set(runs[name].groupby("qid", sort=False).head(100).index) for name in ("longest", "snrm_knrm")}
    assert set(runs["both"].index) == best["longest"] | best["snrm_knrm"]
    for pair, score in runs["both"].items():
        expected = 0.125
        expected += 0.75 * min(1, runs["longest"][pair] / 400) if pair in best["longest"] else 0
        expected += 0.5 * (runs["snrm_knrm"][pair] + 1) / 2 if pair in best["snrm_knrm"] else 0
        assert score == pytest.approx(expected, abs=1e-5)
    metadata = yaml.safe_load((tmp_path / "out" / "ir-metadata.yml").read_text())
    methods = {entry["method"]: entry for entry in metadata["method"]["retrieval"]}
    assert methods["longest"]["description"] == "The longest premises first."
    assert "checkpoints" not in methods["longest"]
    assert methods["snrm_knrm"]["reranks"] == "snrm"
    assert list(methods["snrm_knrm"]["checkpoints"]) == ["snrm", "knrm"]
    assert methods["both"]["interpolates"] == ["longest", "snrm_knrm"]
    assert rank_all("again", *flags, *(flag for name in NEW for flag in ("--system", name))) == 0
    for name in NEW:
        run = f"aragorn-{name}.txt"
        assert (tmp_path / "again" / run).read_bytes() == (tmp_path / "out" / run).read_bytes()
        (qid, docno), score = runs[name].index[1], runs[name].iloc[1]
        explain_flags = ["--system", name, "--qid", qid, "--docno", docno]
        assert main(["explain", "-i", str(corpus_with_topics), "--checkpoints", str(checkpoints_copy), *explain_flags]) == 0
        [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("score ")]
        assert float(line.split()[1].rstrip(":")) == pytest.approx(score, abs=1e-4)
    assert main(["systems", "--checkpoints", str(checkpoints_copy)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["longest", "ready", "The", "longest", "premises", "first."] for line in lines)
    assert any(line.strip() == "score = 0.125 +0.750 minmax(longest) +0.500 minmax(snrm_knrm)" for line in lines)
    assert main(["check", "-i", str(corpus_with_topics), "--checkpoints", str(checkpoints_copy)]) == 0
    assert "OK     checkpoint both" in capsys.readouterr().out
    (checkpoints_copy / "both" / "config.json").write_text("{}")
    assert main(["check", "-i", str(corpus_with_topics), "--checkpoints", str(checkpoints_copy)]) == 4
    assert "ERROR  checkpoint both: " in capsys.readouterr().out


def test_equal_stages_run_once_and_failures_are_cached(make_execution: MakeExecution, corpus_with_topics: Path) -> None:
    calls: list[str] = []

    @dataclass(frozen=True)
    class Counted(Longest):
        name: str = "a"

        def search(self, execution: Execution) -> pd.DataFrame:
            calls.append(self.name)
            lists = super().search(execution)
            return lists.assign(rank=7) if self.name == "faulty" else lists

    execution = make_execution(corpus_with_topics)
    first = execution.get_ranking(Counted())
    assert execution.get_ranking(Counted()) is first
    execution.get_ranking(Counted("b"))
    assert execution.compute_cache_key(Counted("b")) != execution.compute_cache_key(Counted())
    for _ in range(2):
        with pytest.raises(ValueError, match="topic 1: ranks must be 1, 2, 3"):
            execution.get_ranking(Counted("faulty"))
    assert calls == ["a", "b", "faulty"]


def test_invalid_system_names_fail() -> None:
    with pytest.raises(ValueError, match="invalid system name 'my-system'"):
        System("my-system", CONCLUSION_BM25, "x")


def test_networks_rerank_another_system(
    rank_all: RankAll, make_execution: MakeExecution, corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path
) -> None:
    """Re-rank an input run with a stage that is no registered system."""
    networks = ("knrm", "gru", "snrm", "cedr_drmm")
    assert rank_all("first", "--system", "dirichlet", "--depth", "20") == 0
    flags = ["--input-run", str(tmp_path / "first"), "--team", "dirichlet"]
    assert rank_all("again", *flags, *(flag for name in networks for flag in ("--system", name))) == 0
    execution = make_execution(corpus_with_topics, checkpoints=checkpoints_copy)
    pairs = truncate_rankings(execution.get_ranking(FUSION_CANDIDATES["dirichlet"]), 20)[["qid", "docno"]]
    for name in networks:
        stage = RerankStage(FUSION_CANDIDATES["dirichlet"], name)
        expected = rank_by_score(pairs.assign(score=stage.score(execution, pairs)), execution.topics)
        run = read_run(tmp_path / "again" / f"dirichlet-{name}.txt")
        both = run.merge(expected, on=["qid", "docno"])
        assert len(both) == len(run) == len(expected) > 40
        np.testing.assert_allclose(both["score_x"], both["score_y"], rtol=0, atol=1e-5)
        # As a member of a fusion it is nothing new: a network scores a pair, whatever it re-ranks otherwise.
        np.testing.assert_allclose(
            FUSION_CANDIDATES[name].score(execution, pairs), stage.score(execution, pairs), rtol=0, atol=1e-5
        )
