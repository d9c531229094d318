"""Tests of stages: dense retrieval, debates, re-ranking by quality, custom stages."""

import json

import numpy as np
import pandas as pd
import pytest

from aragorn.__main__ import main
from aragorn.engine import CPU
from aragorn.index import dense as retrieval_dense
from aragorn.index.dense import encode_queries
from aragorn.systems import dense
from aragorn.systems.catalogue import FUSION_CANDIDATES, SYSTEMS
from aragorn.systems.cluster_score import CLUSTER_DEPTH, ClusterScoreStage
from tests.conftest import argv, assert_runs, make_argument, read_files, update_hash, write_topics

SBERT = SYSTEMS["sbert"].stage
BM25 = SYSTEMS["bm25"].stage
CONCLUSIONS = FUSION_CANDIDATES["sbert_conclusions"]


def compute_cosines(retrieval, title):
    """Compute the cosines of all conclusions to a title, in descending order."""
    checkpoint = SBERT.load_checkpoint(retrieval.session.checkpoints)
    conclusions = sorted(set(retrieval.collection.documents.read_conclusions()["conclusion"]))
    vectors = encode_queries(conclusions, checkpoint, CPU).astype(np.float16).astype(np.float64)
    similarities = (vectors * encode_queries([title], checkpoint, CPU)).sum(axis=1)
    order = np.argsort(-similarities.astype(np.float32), kind="stable")
    return pd.Series(similarities[order], index=[conclusions[row] for row in order])


def test_candidates_are_premises_of_nearest_conclusions_and_of_bm25(execute, monkeypatch):
    monkeypatch.setattr(dense, "MAX_CONCLUSIONS", 3)
    retrieval = execute()
    rankings = (retrieval.rank(stage).groupby("qid")["docno"] for stage in (SBERT, BM25))
    ranking, bm25 = (docnos.agg(set) for docnos in rankings)
    documents = retrieval.collection.documents
    collection = documents.read_texts(documents.searchable_docnos)
    added_count = 0
    for qid, title in zip(retrieval.topics["qid"], retrieval.topics["query"], strict=True):
        nearest = compute_cosines(retrieval, title).index[:3]
        dense_docnos = set(collection.loc[collection["conclusion"].isin(nearest), "docno"])
        assert ranking[qid] == dense_docnos | bm25[qid]
        added_count += len(dense_docnos - bm25[qid])
    assert added_count > 5


def test_search_of_all_premises_gives_the_same_scores(execute, checkpoints_copy):
    with_conclusions = execute().rank(SBERT)
    file = checkpoints_copy / "sbert" / "config.json"
    config = json.loads(file.read_text())
    config["config"]["scope"] = "premises"
    file.write_text(json.dumps(config))
    update_hash(file.parent, file.name)
    retrieval = execute()
    ranking = retrieval.rank(SBERT)
    expected = [len(retrieval.collection.documents.searchable_docnos)] * 3
    assert ranking.groupby("qid").size().tolist() == expected
    merged = with_conclusions.merge(ranking, on=["qid", "docno"])
    assert len(merged) == len(with_conclusions) > 100
    np.testing.assert_array_equal(merged["score_x"], merged["score_y"])
    single_topic = execute(qid="2").rank(SBERT)
    pd.testing.assert_frame_equal(
        single_topic, ranking[ranking["qid"] == "2"].reset_index(drop=True), check_exact=True
    )


def test_documents_are_scored_by_their_conclusions(execute):
    retrieval = execute()
    ranking = retrieval.rank(CONCLUSIONS)
    documents = retrieval.collection.documents
    collection = documents.read_texts(documents.searchable_docnos)
    # the depth covers all 100 conclusions
    assert ranking.groupby("qid").size().tolist() == [len(collection)] * 3
    topic_ranking = ranking[ranking["qid"] == "1"].merge(collection, on="docno")
    cosines = compute_cosines(retrieval, retrieval.topics["query"][0])
    expected = topic_ranking["conclusion"].map(cosines)
    # float16 vectors
    np.testing.assert_allclose(topic_ranking["score"], expected, rtol=0, atol=1e-4)
    # the first title is a conclusion
    assert topic_ranking["score"][0] == pytest.approx(1.0, abs=1e-3)
    pairs = ranking.sample(frac=0.2, random_state=0)
    np.testing.assert_array_equal(
        CONCLUSIONS.score(retrieval, pairs[["qid", "docno"]]), pairs["score"]
    )
    row = ranking[ranking["qid"] == "2"].iloc[7]
    explanation = CONCLUSIONS.explain(execute(qid="2"), "2", row["docno"])
    assert explanation.score == row["score"]
    assert explanation.model_inputs["conclusion as tokenised"].startswith("topic ##")


@pytest.mark.usefixtures("small_shards")
def test_all_documents_with_a_common_latent_term_are_retrieved(execute, corpus_with_topics, caplog):
    write_topics(corpus_with_topics / "topics.xml", ["topicaa topicbb", "unheard", "topicac"])
    stage = SYSTEMS["snrm"].stage
    retrieval = execute()
    ranking = retrieval.rank(stage)
    documents = pd.DataFrame({"docno": retrieval.collection.documents.searchable_docnos})
    pairs = retrieval.topics[["qid"]].merge(documents, how="cross")
    # of the network, without the index
    scores = pairs.assign(score=stage.score(retrieval, pairs)).query("score > 0")
    merged = ranking.merge(scores, on=["qid", "docno"])
    assert len(merged) == len(ranking) == len(scores) > 100
    np.testing.assert_allclose(merged["score_x"], merged["score_y"], rtol=0, atol=1e-6)
    assert "topic 2 (unheard): no document shares a latent term" in caplog.text


RETRIEVER = FUSION_CANDIDATES["bm25_arguments"]
DEBATES = ClusterScoreStage(RETRIEVER)
FILLER = "a premise that has enough words to be ranked because shorter premises are dropped from the collection"
# ids of an older version of args.me
RETRIEVED, OTHER = (f"c67482ba-2019-04-18T13:32:05Z-0000{n}-000" for n in range(2))
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


def list_arguments(texts):
    return [make_argument(docno, "Animals", f"{text} {FILLER}") for docno, text in texts.items()]


@pytest.fixture
def directory(make_input):
    return make_input([("1", "Are zoos cruel?"), ("2", "Cages")], list_arguments(TEXTS))


def get_scores(retrieval, stage):
    """Return the scores of the first topic's documents by docno."""
    return retrieval.rank(stage).set_index(["qid", "docno"])["score"]["1"]


def test_debate_means_match_hand_computed_values(make_retrieval, directory):
    retrieval = make_retrieval(directory)
    retrieved = get_scores(retrieval, RETRIEVER)
    scores = get_scores(retrieval, DEBATES)
    expected = dict.fromkeys(DEBATE, retrieved[DEBATE].mean())
    expected |= {docno: retrieved[docno] for docno in (RETRIEVED, "Sc-A1", "mine-1", "mine-2")}
    assert scores.to_dict() == pytest.approx(expected, abs=1e-9)
    assert scores.nunique() < retrieved.nunique()
    # not retrieved, unlike another argument of its debate
    pairs = pd.DataFrame({"qid": "1", "docno": [OTHER]})
    actual = DEBATES.score(retrieval, pairs).tolist()
    assert actual == pytest.approx([retrieved[RETRIEVED] / 2], abs=1e-9)
    assert DEBATES.score(retrieval, pairs.iloc[:0]).shape == (0,)
    for docno, members in (("Sa-A2", DEBATE), ("mine-1", ["mine-1"])):
        explanation = DEBATES.explain(make_retrieval(directory, qid="1"), "1", docno)
        assert sorted(row.label for row in explanation.contributions) == members
        assert explanation.score == pytest.approx(scores[docno], abs=1e-9)
        assert f"mean retrieval score of {len(members)} documents of debate" in explanation.summary


def test_debate_mean_uses_only_top_documents(make_retrieval, make_input):
    # rank between the debate's documents
    texts = TEXTS | {f"S{n:x}-A1": "zoos zoos" for n in range(300, 300 + CLUSTER_DEPTH)}
    retrieval = make_retrieval(make_input([("1", "Are zoos cruel?")], list_arguments(texts)))
    retrieved = get_scores(retrieval, RETRIEVER)
    scores = get_scores(retrieval, DEBATES)
    is_top = {docno: retrieved.index.get_loc(docno) < CLUSTER_DEPTH for docno in DEBATE}
    # the term is so frequent that its weight is negative
    assert is_top == {"Sa-A1": False, "Sa-A2": True, "Sa-A3": True}
    expected = [retrieved[["Sa-A2", "Sa-A3"]].mean()] * 2
    assert scores[["Sa-A2", "Sa-A3"]].tolist() == pytest.approx(expected, abs=1e-9)
    assert scores["Sa-A1"] == pytest.approx(retrieved[DEBATE].mean(), abs=1e-9)


QUALITY = SYSTEMS["tfr_bert"].stage


def test_only_the_top_documents_are_reordered(execute):
    retrieval = execute()
    before = retrieval.rank(QUALITY.relevance)
    after = retrieval.rank(QUALITY)
    pairs = before[before["rank"] <= 7][["qid", "docno"]]
    quality = pd.Series(QUALITY.quality.score(retrieval, pairs).astype(float), index=pairs.index)
    assert set(after["qid"]) == {"1", "2", "3"}
    for qid, old in before.groupby("qid"):
        new = after[after["qid"] == qid].reset_index(drop=True)
        first = old.head(7)
        relevance, quality_values = (
            (values - values.mean()) / values.std(ddof=0)
            for values in (first["score"], quality[first.index])
        )
        expected = relevance + 2 * quality_values
        expected.index = first["docno"]
        order = expected.sort_values(ascending=False).index.tolist()
        assert new["docno"][:7].tolist() == order != first["docno"].tolist()
        np.testing.assert_allclose(new["score"][:7], expected.sort_values(ascending=False))
        assert new["docno"][7:].tolist() == old["docno"][7:].tolist() != []
        assert new["score"][7] <= new["score"][6] - 1
    assert np.array_equal(QUALITY.score(retrieval, after[["qid", "docno"]]), after["score"])


def test_index_makes_all_vectors_of_a_collection(
    corpus_with_topics, all_checkpoints_dir, tmp_path, monkeypatch
):
    """Compare runs with vectors of other topics or an index with those of an empty cache."""
    flags = argv("--system sbert --device cpu --checkpoints", all_checkpoints_dir)
    flags += argv("-i", corpus_with_topics)

    def rank(name, cache):
        output = tmp_path / name
        assert_runs(main, "rank", *flags, "-o", output, "--cache-dir", tmp_path / cache)
        return read_files(output)["aragorn-sbert.txt"]

    expected = rank("cold", "cold-cache")
    counts = list[int]()
    encode = retrieval_dense.encode_shard

    def count_and_encode(*arguments):
        counts.append(len(arguments[-1]))
        return encode(*arguments)

    monkeypatch.setattr(retrieval_dense, "encode_shard", count_and_encode)
    assert_runs(main, "index", *flags, "--cache-dir", tmp_path / "index")
    assert sum(counts) > 400
    counts.clear()
    # encodes no text, not even to estimate the time
    assert_runs(main, "index", *flags, "--cache-dir", tmp_path / "index")
    assert rank("indexed", "index") == expected
    topics = corpus_with_topics / "topics.xml"
    topics.write_text(topics.read_text().replace("<number>3</number>", "<number>4</number>"))
    assert rank("other topics", "cold-cache")
    assert counts == []
