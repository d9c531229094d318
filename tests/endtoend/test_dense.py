"""Tests of dense retrieval over conclusions and premises."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.engine.base import CPU
from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.retrieval.dense import encode_queries
from submission.systems import dense
from submission.systems.catalogue import FUSION_CANDIDATES, SYSTEMS
from submission.systems.execution import Execution
from tests.conftest import update_hash
from tests.endtoend.conftest import Execute

STAGE, BM25, CONCLUSIONS = SYSTEMS["sbert"].stage, SYSTEMS["bm25"].stage, FUSION_CANDIDATES["sbert_conclusions"]


def compute_cosines(execution: Execution, title: str) -> pd.Series:
    """Compute the cosine similarity of each conclusion to a title, in descending order, indexed by conclusion."""
    checkpoint = STAGE.load_checkpoint(execution.checkpoints)
    assert isinstance(checkpoint, RankerCheckpoint)
    conclusions = sorted(set(execution.documents.read_conclusions()["conclusion"]))
    vectors = encode_queries(conclusions, checkpoint, CPU).astype(np.float16).astype(np.float64)
    similarities = (vectors * encode_queries([title], checkpoint, CPU)).sum(axis=1)
    order = np.argsort(-similarities.astype(np.float32), kind="stable")
    return pd.Series(similarities[order], index=[conclusions[row] for row in order])


def test_candidates_are_premises_of_nearest_conclusions_and_of_bm25(execute: Execute, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "MAX_CONCLUSIONS", 3)
    execution = execute()
    ranking, bm25 = (execution.get_ranking(stage).groupby("qid")["docno"].agg(set) for stage in (STAGE, BM25))
    collection = execution.documents.read_texts(execution.documents.searchable_docnos)
    added_count = 0
    for qid, title in zip(execution.topics["qid"], execution.topics["query"], strict=True):
        nearest = compute_cosines(execution, title).index[:3]
        dense_docnos = set(collection.loc[collection["conclusion"].isin(nearest), "docno"])
        assert ranking[qid] == dense_docnos | bm25[qid]
        added_count += len(dense_docnos - bm25[qid])
    assert added_count > 5


def test_search_of_all_premises_gives_the_same_scores(execute: Execute, checkpoints_copy: Path) -> None:
    with_conclusions = execute().get_ranking(STAGE)
    file = checkpoints_copy / "sbert" / "config.json"
    config = json.loads(file.read_text())
    config["config"]["scope"] = "premises"
    file.write_text(json.dumps(config))
    update_hash(file.parent, file.name)
    execution = execute()
    ranking = execution.get_ranking(STAGE)
    assert ranking.groupby("qid").size().tolist() == [len(execution.documents.searchable_docnos)] * 3
    merged = with_conclusions.merge(ranking, on=["qid", "docno"])
    assert len(merged) == len(with_conclusions) > 100
    np.testing.assert_array_equal(merged["score_x"], merged["score_y"])
    single_topic = execute(qid="2").get_ranking(STAGE)
    pd.testing.assert_frame_equal(single_topic, ranking[ranking["qid"] == "2"].reset_index(drop=True), check_exact=True)


def test_documents_are_scored_by_their_conclusions(execute: Execute) -> None:
    execution = execute()
    ranking, documents = execution.get_ranking(CONCLUSIONS), execution.documents
    collection = documents.read_texts(documents.searchable_docnos)
    assert ranking.groupby("qid").size().tolist() == [len(collection)] * 3  # the depth covers all 100 conclusions
    topic_ranking = ranking[ranking["qid"] == "1"].merge(collection, on="docno")
    expected = topic_ranking["conclusion"].map(compute_cosines(execution, execution.topics["query"][0]))
    np.testing.assert_allclose(topic_ranking["score"], expected, rtol=0, atol=1e-6)
    assert topic_ranking["score"][0] == pytest.approx(1.0, abs=1e-3)  # the first title is a conclusion
    pairs = ranking.sample(frac=0.2, random_state=0)
    np.testing.assert_array_equal(CONCLUSIONS.score(execution, pairs[["qid", "docno"]]), pairs["score"])
    row = ranking[ranking["qid"] == "2"].iloc[7]
    explanation = CONCLUSIONS.explain(execute(qid="2"), "2", row["docno"])
    assert explanation.score == row["score"]
    assert explanation.model_inputs["conclusion as tokenised"].startswith("topic ##")
