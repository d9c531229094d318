"""Dense retrieval systems, over conclusions or premises."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission.inference.ranker_checkpoint import RankerCheckpoint
from submission.retrieval.dense import encode_queries
from submission.systems import dense
from submission.systems.catalogue import FUSION_CANDIDATES, SYSTEMS
from submission.systems.execution import Execution
from tests.conftest import update_hash
from tests.endtoend.conftest import MakeExecution

STAGE, BM25 = SYSTEMS["sbert"].stage, SYSTEMS["bm25"].stage


def search_premises(checkpoints: Path) -> None:
    """Set the checkpoint to search all premises."""
    file = checkpoints / "sbert" / "config.json"
    config = json.loads(file.read_text())
    config["config"]["scope"] = "premises"
    file.write_text(json.dumps(config))
    update_hash(checkpoints / "sbert", "config.json")


def cosines(execution: Execution, opened: object, title: str) -> pd.Series:
    """Compute the cosines of all conclusions with a title, in descending order."""
    assert isinstance(opened, RankerCheckpoint)
    conclusions = sorted(set(execution.documents.read_conclusions()["conclusion"]))
    vectors = encode_queries(conclusions, opened, torch.device("cpu")).astype(np.float16).astype(np.float64)
    similarities = (vectors * encode_queries([title], opened, torch.device("cpu"))).sum(axis=1)
    order = np.argsort(-similarities.astype(np.float32), kind="stable")
    return pd.Series(similarities[order], index=[conclusions[row] for row in order])


def test_dense_merges_nearest_conclusions_and_bm25(
    make_execution: MakeExecution, corpus_with_topics: Path, all_checkpoints_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "MAX_CONCLUSIONS", 3)
    execution = make_execution(corpus_with_topics, checkpoints=all_checkpoints_dir)
    ranking, bm25 = execution.get_ranking(STAGE), execution.get_ranking(BM25)
    collection, opened = (
        execution.documents.read_texts(execution.documents.searchable_docnos),
        STAGE.load_checkpoint(execution.checkpoints),
    )
    added = 0
    for qid, title in zip(execution.topics["qid"], execution.topics["query"], strict=True):
        nearest = cosines(execution, opened, title).index[:3]
        dense_docnos = set(collection.loc[collection["conclusion"].isin(nearest), "docno"])
        bm25_docnos = set(bm25.loc[bm25["qid"] == qid, "docno"])
        assert set(ranking.loc[ranking["qid"] == qid, "docno"]) == dense_docnos | bm25_docnos
        added += len(dense_docnos - bm25_docnos)
    assert added > 5


def test_dense_over_all_premises_is_independent_per_topic(
    make_execution: MakeExecution, corpus_with_topics: Path, checkpoints_copy: Path
) -> None:
    narrow = make_execution(corpus_with_topics, checkpoints=checkpoints_copy).get_ranking(STAGE)
    search_premises(checkpoints_copy)
    execution = make_execution(corpus_with_topics, checkpoints=checkpoints_copy)
    ranking = execution.get_ranking(STAGE)
    assert ranking.groupby("qid").size().tolist() == [len(execution.documents.searchable_docnos)] * 3
    both = narrow.merge(ranking, on=["qid", "docno"], suffixes=(" narrow", ""))
    assert len(both) == len(narrow) > 100
    np.testing.assert_array_equal(both["score narrow"], both["score"])  # a score is of its pair, however it was found
    pairs = ranking.sample(frac=0.2, random_state=0)[["qid", "docno"]].reset_index(drop=True)
    expected = pairs.merge(ranking, on=["qid", "docno"], how="left")["score"]
    np.testing.assert_allclose(STAGE.score(execution, pairs), expected, rtol=0, atol=1e-5)
    alone = make_execution(corpus_with_topics, checkpoints=checkpoints_copy, qid="2").get_ranking(STAGE)
    pd.testing.assert_frame_equal(alone, ranking[ranking["qid"] == "2"].reset_index(drop=True), check_exact=True)


def test_nearest_conclusions(make_execution: MakeExecution, corpus_with_topics: Path, all_checkpoints_dir: Path) -> None:
    stage = FUSION_CANDIDATES["sbert_conclusions"]
    execution = make_execution(corpus_with_topics, checkpoints=all_checkpoints_dir)
    ranking, documents, opened = execution.get_ranking(stage), execution.documents, stage.load_checkpoint(execution.checkpoints)
    collection = documents.read_texts(documents.searchable_docnos)
    assert ranking.groupby("qid").size().tolist() == [len(collection)] * 3  # it has a hundred different conclusions
    topic_ranking = ranking[ranking["qid"] == "1"].merge(collection, on="docno")
    expected = topic_ranking["conclusion"].map(cosines(execution, opened, execution.topics["query"][0]))
    np.testing.assert_allclose(topic_ranking["score"], expected, rtol=0, atol=1e-6)
    assert topic_ranking["score"][0] == pytest.approx(1.0, abs=1e-3)  # the first title is a conclusion
    pairs = ranking.sample(frac=0.2, random_state=0)
    np.testing.assert_array_equal(stage.score(execution, pairs[["qid", "docno"]]), pairs["score"])
    row = ranking[ranking["qid"] == "2"].iloc[7]
    explained = stage.explain(make_execution(corpus_with_topics, checkpoints=all_checkpoints_dir, qid="2"), "2", row["docno"])
    assert explained.score == row["score"]
    assert explained.model_inputs["conclusion as tokenised"].startswith("topic ##")
