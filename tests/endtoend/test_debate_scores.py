"""Tests of retrieval scores averaged over debates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.rankings import truncate_rankings
from submission.systems import cluster_score
from submission.systems.catalogue import FUSION_CANDIDATES
from submission.systems.cluster_score import ClusterScoreStage, parse_debate_id
from tests.conftest import make_argument
from tests.endtoend.conftest import MakeExecution

RETRIEVER = FUSION_CANDIDATES["bm25_arguments"]
STAGE = ClusterScoreStage(RETRIEVER)
FILLER = "a premise that has enough words to be ranked because shorter premises are dropped from the collection"


@pytest.fixture
def directory(make_input: Callable[..., Path]) -> Path:
    """Write an input whose arguments belong to no debate or to debates of one to three arguments."""
    words = {
        "Sa-A1": "zoos zoos zoos",
        "Sa-A2": "zoos and more",
        "Sa-A3": "zoos are large places with animals that people see every day of the year",
        "Sb-A1": "zoos zoos",
        "Sb-A2": "aquariums",
        "Sc-A1": "zoos zoos zoos and cages",
        "mine-1": "zoos cages",
        "mine-2": "zoos zoos cages cages",
    }
    arguments = [make_argument(docno, "Animals", f"{text} {FILLER}") for docno, text in words.items()]
    return make_input([("1", "Are zoos cruel?"), ("2", "Cages")], arguments)


def test_parse_debate_id() -> None:
    for docno, debate in (
        ("S89c1bfbf-A23fa7870", "S89c1bfbf"),
        ("Sa-A0", "Sa"),
        ("c67482ba-2019-04-18T13:32:05Z-00000-000", "c67482ba"),
    ):
        assert parse_debate_id(docno) == debate
    for docno in ("mine-1", "Sa-1", "c67482ba-2019"):
        assert parse_debate_id(docno) == docno


def test_debate_means_match_hand_computed_values(make_execution: MakeExecution, directory: Path) -> None:
    execution = make_execution(directory)
    retrieval_scores = execution.get_ranking(RETRIEVER).set_index(["qid", "docno"])["score"]
    scores = execution.get_ranking(STAGE).set_index(["qid", "docno"])["score"]
    assert set(scores.index) == set(retrieval_scores.index)
    topic_scores = retrieval_scores["1"]
    expected = {docno: topic_scores[["Sa-A1", "Sa-A2", "Sa-A3"]].mean() for docno in ("Sa-A1", "Sa-A2", "Sa-A3")}
    expected |= {docno: topic_scores[docno] for docno in ("Sb-A1", "Sc-A1", "mine-1", "mine-2")}
    assert scores["1"].to_dict() == pytest.approx(expected, abs=1e-9)
    assert scores["1"].nunique() < topic_scores.nunique()
    pairs = pd.DataFrame({"qid": "1", "docno": ["Sb-A2"]})  # not retrieved, unlike another argument of its debate
    assert STAGE.score(execution, pairs).tolist() == pytest.approx([topic_scores["Sb-A1"] / 2], abs=1e-9)
    assert STAGE.score(execution, pairs.iloc[:0]).shape == (0,)
    single_topic = make_execution(directory, qid="1")
    for docno, members in (("Sa-A2", {"Sa-A1", "Sa-A2", "Sa-A3"}), ("mine-1", {"mine-1"})):
        explanation = STAGE.explain(single_topic, "1", docno)
        assert {row.label for row in explanation.contributions} == members
        assert explanation.score == pytest.approx(scores["1", docno], abs=1e-9)
        assert f"mean retrieval score of {len(members)} documents of debate" in explanation.summary


def test_debate_mean_uses_only_top_documents(
    make_execution: MakeExecution, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_score, "CLUSTER_DEPTH", 3)
    execution = make_execution(directory)
    ranking = execution.get_ranking(RETRIEVER)
    top_documents = truncate_rankings(ranking, 3)
    retrieval_scores, top_scores = (frame.set_index(["qid", "docno"])["score"]["1"] for frame in (ranking, top_documents))
    scores = execution.get_ranking(STAGE).set_index(["qid", "docno"])["score"]["1"]
    for docno, score in scores.items():
        debate_scores = top_scores[
            [member for member in top_scores.index if member.startswith("Sa-") and str(docno).startswith("Sa-")]
        ]
        if docno not in debate_scores.index:
            debate_scores = pd.concat([debate_scores, retrieval_scores[[docno]]])
        assert score == pytest.approx(debate_scores.mean(), abs=1e-9)
    assert not np.allclose(scores[["Sa-A1", "Sa-A2", "Sa-A3"]], retrieval_scores[["Sa-A1", "Sa-A2", "Sa-A3"]].mean())


def test_debate_means_over_an_input_run_use_only_its_documents(
    make_execution: MakeExecution, directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.txt").write_text("".join(f"1 Q0 {docno} {n} {-n} x\n" for n, docno in enumerate(("Sa-A1", "Sb-A1"), 1)))
    execution = make_execution(directory, input_run=tmp_path / "run.txt")
    scores, retrieval_scores = (execution.get_ranking(stage).set_index("docno")["score"] for stage in (STAGE, RETRIEVER))
    assert scores.to_dict() == retrieval_scores.to_dict()
