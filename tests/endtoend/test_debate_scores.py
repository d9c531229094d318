"""Tests of retrieval scores averaged over debates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from submission.systems.catalogue import FUSION_CANDIDATES
from submission.systems.cluster_score import CLUSTER_DEPTH, ClusterScoreStage
from submission.systems.execution import Execution, Stage
from tests.conftest import make_argument
from tests.endtoend.conftest import MakeExecution

RETRIEVER = FUSION_CANDIDATES["bm25_arguments"]
STAGE = ClusterScoreStage(RETRIEVER)
FILLER = "a premise that has enough words to be ranked because shorter premises are dropped from the collection"
RETRIEVED, OTHER = (f"c67482ba-2019-04-18T13:32:05Z-0000{n}-000" for n in range(2))  # ids of an older version of args.me
TEXTS = {  # three arguments of one debate, two of another, one of a third, and two of none
    "Sa-A1": "zoos zoos zoos",
    "Sa-A2": "zoos and more",
    "Sa-A3": "zoos are large places with animals that people see every day of the year",
    RETRIEVED: "zoos zoos",
    OTHER: "aquariums",
    "Sc-A1": "zoos zoos zoos and cages",
    "mine-1": "zoos cages",
    "mine-2": "zoos zoos cages cages",
}
DEBATE = ["Sa-A1", "Sa-A2", "Sa-A3"]


def list_arguments(texts: dict[str, str]) -> list[dict[str, object]]:
    return [make_argument(docno, "Animals", f"{text} {FILLER}") for docno, text in texts.items()]


@pytest.fixture
def directory(make_input: Callable[..., Path]) -> Path:
    return make_input([("1", "Are zoos cruel?"), ("2", "Cages")], list_arguments(TEXTS))


def get_scores(execution: Execution, stage: Stage) -> pd.Series:
    """Return the scores of the first topic's documents by docno."""
    return execution.get_ranking(stage).set_index(["qid", "docno"])["score"]["1"]


def test_debate_means_match_hand_computed_values(make_execution: MakeExecution, directory: Path) -> None:
    execution = make_execution(directory)
    retrieval, scores = get_scores(execution, RETRIEVER), get_scores(execution, STAGE)
    expected = dict.fromkeys(DEBATE, retrieval[DEBATE].mean())
    expected |= {docno: retrieval[docno] for docno in (RETRIEVED, "Sc-A1", "mine-1", "mine-2")}
    assert scores.to_dict() == pytest.approx(expected, abs=1e-9)
    assert scores.nunique() < retrieval.nunique()
    pairs = pd.DataFrame({"qid": "1", "docno": [OTHER]})  # not retrieved, unlike another argument of its debate
    assert STAGE.score(execution, pairs).tolist() == pytest.approx([retrieval[RETRIEVED] / 2], abs=1e-9)
    assert STAGE.score(execution, pairs.iloc[:0]).shape == (0,)


def test_explanation_lists_the_debate(make_execution: MakeExecution, directory: Path) -> None:
    execution = make_execution(directory, qid="1")
    scores = get_scores(execution, STAGE)
    for docno, members in (("Sa-A2", DEBATE), ("mine-1", ["mine-1"])):
        explanation = STAGE.explain(execution, "1", docno)
        assert sorted(row.label for row in explanation.contributions) == members
        assert explanation.score == pytest.approx(scores[docno], abs=1e-9)
        assert f"mean retrieval score of {len(members)} documents of debate" in explanation.summary


def test_debate_mean_uses_only_top_documents(make_execution: MakeExecution, make_input: Callable[..., Path]) -> None:
    texts = TEXTS | {f"S{n:x}-A1": "zoos zoos" for n in range(300, 300 + CLUSTER_DEPTH)}  # rank between the debate's documents
    execution = make_execution(make_input([("1", "Are zoos cruel?")], list_arguments(texts)))
    retrieval, scores = get_scores(execution, RETRIEVER), get_scores(execution, STAGE)
    is_top = {docno: retrieval.index.get_loc(docno) < CLUSTER_DEPTH for docno in DEBATE}
    assert is_top == {"Sa-A1": False, "Sa-A2": True, "Sa-A3": True}  # the term is so frequent that its weight is negative
    assert scores[["Sa-A2", "Sa-A3"]].tolist() == pytest.approx([retrieval[["Sa-A2", "Sa-A3"]].mean()] * 2, abs=1e-9)
    assert scores["Sa-A1"] == pytest.approx(retrieval[DEBATE].mean(), abs=1e-9)


def test_debate_means_over_an_input_run_use_only_its_documents(
    make_execution: MakeExecution, directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.txt").write_text(f"1 Q0 Sa-A1 1 -1 x\n1 Q0 {RETRIEVED} 2 -2 x\n")
    execution = make_execution(directory, input_run=tmp_path / "run.txt")
    assert get_scores(execution, STAGE).to_dict() == get_scores(execution, RETRIEVER).to_dict()
