"""Contract tests of all systems in the catalogue; a new entry is covered automatically."""

import numpy as np
import pandas as pd
import pytest

from aragorn.engine import CPU
from aragorn.io.dataset import Dataset
from aragorn.pipeline.retrieval import iter_components
from aragorn.rankings import COLUMNS, validate_rankings
from aragorn.search.searcher import SearchOptions
from aragorn.systems.catalogue import SYSTEMS
from aragorn.systems.conclusions import ConclusionStage
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.lexical import LexicalStage
from aragorn.systems.quality import SCORE_GAP
from tests.conftest import format_run_lines, open_retrieval, open_searcher


# In the default tier, `ensemble` represents both ensembles.
@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.slow] * (name == "ensemble_thesis"))
        for name in SYSTEMS
    ]
)
def name(request):
    return str(request.param)


@pytest.fixture(scope="module")
def retrieval(topics_and_corpus, all_checkpoints_dir):
    """Open a retrieval that the tests share, so that each system ranks only once."""
    with open_retrieval(topics_and_corpus, all_checkpoints_dir) as retrieval:
        yield retrieval


@pytest.fixture(scope="module")
def reranking(retrieval, topics_and_corpus, all_checkpoints_dir, tmp_path_factory):
    """Re-rank a run with short documents and others that no system retrieves."""
    documents = retrieval.dataset.documents["docno"].tolist()
    qids = enumerate(retrieval.topics["qid"])
    rankings = {qid: documents[row :: 40 + row] for row, qid in qids}
    run = tmp_path_factory.mktemp("run") / "run.txt"
    run.write_text(format_run_lines(rankings))
    with open_retrieval(topics_and_corpus, all_checkpoints_dir, run) as reranking:
        yield reranking


@pytest.fixture(scope="module")
def single_topic(topics_and_corpus, all_checkpoints_dir):
    """Open a retrieval that ranks topic 2 only."""
    with open_retrieval(topics_and_corpus, all_checkpoints_dir, qid="2") as single_topic:
        yield single_topic


@pytest.fixture(scope="module")
def searcher(retrieval):
    with open_searcher(
        Dataset(*retrieval.dataset.paths, has_topics=False), retrieval.session.checkpoints, CPU
    ) as searcher:
        yield searcher


def test_rankings_have_the_documented_form(name, retrieval):
    lists = retrieval.rank(SYSTEMS[name].stage)
    assert lists.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in lists.dtypes] == ["object", "object", "int64", "float64"]
    unknown = retrieval.collection.documents.find_unknown(lists["docno"])
    validate_rankings(lists, retrieval.topics, unknown)
    assert set(lists["docno"]) <= set(retrieval.collection.documents.searchable_docnos)
    assert set(lists["qid"]) == set(retrieval.topics["qid"])


def test_systems_rank_differently(retrieval):
    rankings = [
        retrieval.rank(system.stage)[["qid", "docno", "score"]] for system in SYSTEMS.values()
    ]
    assert len({ranking.to_csv() for ranking in rankings}) == len(SYSTEMS)


def test_pair_scores_equal_ranking_scores(name, retrieval):
    lists = retrieval.rank(SYSTEMS[name].stage)
    pairs = lists.sample(frac=0.3, random_state=1)
    scores = SYSTEMS[name].stage.score(retrieval, pairs[["qid", "docno"]].reset_index(drop=True))
    np.testing.assert_allclose(scores, pairs["score"], rtol=1e-5, atol=1e-5)


def test_search_equals_ranking_the_same_topic(name, retrieval, searcher):
    listed = retrieval.rank(SYSTEMS[name].stage)
    stage = SYSTEMS[name].stage
    exact_kinds = LexicalStage | ConclusionStage | Enrichment
    exact = all(isinstance(part, exact_kinds) for part in iter_components(stage))
    rankings = searcher.rank(stage, retrieval.topics)
    pd.testing.assert_frame_equal(rankings, listed, check_exact=exact, rtol=1e-5, atol=1e-5)
    options = SearchOptions(5, lambda system, docno: True, highlight=True)
    for qid, query in zip(retrieval.topics["qid"], retrieval.topics["query"], strict=True):
        [answered] = searcher.search(query, [SYSTEMS[name]], options).system_results
        hits = listed[listed["qid"] == qid]
        assert (answered.error, answered.n_ranked) == (None, len(hits))
        assert [hit.docno for hit in answered.hits] == hits["docno"].tolist()[:5]
        scores = [hit.score for hit in answered.hits]
        tolerance = 0 if exact else 1e-5
        np.testing.assert_allclose(scores, hits["score"][:5], rtol=tolerance, atol=tolerance)
        expected = [hit.explanation.score for hit in answered.hits if hit.explanation]
        assert scores == pytest.approx(expected, abs=1e-5)


def test_input_run_is_reranked_completely(name, reranking):
    listed = reranking.rank(SYSTEMS[name].stage)
    validate_rankings(listed, reranking.topics, set())
    pairs = ["qid", "docno"]
    expected = sorted(map(tuple, reranking.input_run[pairs].to_numpy()))
    assert sorted(map(tuple, listed[pairs].to_numpy())) == expected
    if name != "bm25":  # returns the input run
        scores = SYSTEMS[name].stage.score(reranking, listed[pairs])
        np.testing.assert_allclose(scores, listed["score"], rtol=1e-5, atol=1e-5)


def test_explanations_sum_to_scores(name, retrieval, single_topic):
    stage = SYSTEMS[name].stage
    ranking = retrieval.rank(SYSTEMS[name].stage)
    for row in ranking[ranking["qid"] == "2"].iloc[[0, 1, -1]].itertuples():
        explanation = stage.explain(single_topic, row.qid, row.docno)
        assert explanation.contributions
        assert explanation.score == pytest.approx(row.score, rel=1e-5, abs=1e-5)
        total = sum(part.value for part in explanation.contributions)
        score = total if explanation.activation is None else explanation.activation(total)
        assert score == pytest.approx(explanation.score, rel=1e-4, abs=1e-4)


def test_reranking_by_quality_scores_other_documents_below_the_ranking(retrieval):
    stage = SYSTEMS["tfr_bert"].stage
    ranking = retrieval.rank(stage).query("qid == '2'")
    unranked = sorted(retrieval.collection.documents.read_all_docnos() - {*ranking["docno"]})
    pairs = pd.DataFrame({"qid": "2", "docno": unranked[:2]})
    assert stage.score(retrieval, pairs).tolist() == [ranking["score"].min() - SCORE_GAP] * 2
