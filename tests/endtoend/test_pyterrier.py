"""Tests of PyTerrier's pipelines and experiments with the transformers of `aragorn.pyterrier`."""

import re
from pathlib import Path

import pandas as pd
import pytest

from aragorn import load_system
from aragorn.__main__ import main
from aragorn.errors import InputError, UsageError
from aragorn.io.dataset import Dataset
from aragorn.io.runs import read_run
from tests.conftest import ROOT, SAMPLE

pt = pytest.importorskip("pyterrier", reason="requirements-pyterrier.lock is not installed")
from aragorn.pyterrier import Reranker, Retriever  # noqa: E402

pytestmark = pytest.mark.slow

QUERIES = pd.DataFrame(
    {"qid": ["1", "2"], "query": ["Should zoos be abolished?", "Should voting be compulsory?"]}
)
PAIR = ["qid", "docno", "score"]


@pytest.fixture(scope="module")
def dirichlet():
    return Retriever("dirichlet", SAMPLE)


def test_retriever_equals_run_file_whose_scores_strictly_decrease(tmp_path):
    assert main(["rank", "--system", "bm25", "-o", str(tmp_path), "-i", str(SAMPLE)]) == 0
    run = read_run(tmp_path / "run.txt")
    hits = (Retriever("bm25", SAMPLE) % 100).transform(Dataset(SAMPLE).topics)
    assert hits["docno"].tolist() == run["docno"].tolist()
    assert hits["score"].tolist() == run["score"].astype("float32").tolist()
    assert (hits.groupby("qid")["score"].diff().dropna() < 0).all()


def test_retriever_equals_search(dirichlet):
    hits = (dirichlet % 10).transform(QUERIES)
    expected = load_system("dirichlet").search(SAMPLE, QUERIES, depth=10)
    assert hits.columns.tolist() == ["qid", "query", "docno", "rank", "score"]
    pd.testing.assert_frame_equal(
        hits[PAIR].reset_index(drop=True), expected[PAIR], check_dtype=False, rtol=1e-6
    )
    assert hits.groupby("qid")["rank"].agg(["min", "max"]).to_numpy().tolist() == [[0, 9]] * 2
    assert hits["query"].nunique() == 2


def test_reranker_equals_rerank_with_texts_from_index_or_pipeline(dirichlet):
    candidates = dirichlet % 10
    hits = (candidates >> Reranker("knrm", SAMPLE)).transform(QUERIES)
    with load_system("knrm").index(SAMPLE) as index:
        expected = index.rerank(QUERIES, candidates.transform(QUERIES))
        texts = index._searcher.collection.documents.read_texts(expected["docno"].tolist())
    pd.testing.assert_frame_equal(
        hits[PAIR].reset_index(drop=True), expected[PAIR], check_dtype=False, rtol=1e-6
    )
    assert hits["docno"].tolist() != candidates.transform(QUERIES)["docno"].tolist()
    add_text = pt.apply.generic(
        lambda frame: frame.merge(texts.rename(columns={"premise": "text"}), on="docno")
    )
    by_text = (candidates >> add_text >> Reranker("knrm")).transform(QUERIES)
    assert by_text["docno"].tolist() == hits["docno"].tolist()
    assert by_text["score"].tolist() == pytest.approx(hits["score"].tolist(), abs=1e-5)


def test_operators_combine_retrievers(dirichlet):
    bm25 = Retriever("bm25_arguments", SAMPLE)
    hits = (0.5 * dirichlet + bm25).search("Should zoos be abolished?")
    scores = [retriever.search("Should zoos be abolished?") for retriever in (dirichlet, bm25)]
    first, second = (frame.set_index("docno")["score"] for frame in scores)
    docno = hits["docno"].iloc[0]
    assert hits["score"].iloc[0] == pytest.approx(0.5 * first[docno] + second[docno])
    assert dirichlet.transform(QUERIES[:0]).empty


def test_what_cannot_be_reranked_is_refused(dirichlet, tmp_path):
    candidates = (dirichlet % 2).transform(QUERIES)
    with pytest.raises(UsageError, match=r"fusion does not score pairs with a network; choose"):
        Reranker("fusion", SAMPLE).transform(candidates)
    unknown = candidates.assign(docno=["x", *candidates["docno"][1:]])
    with pytest.raises(InputError, match=r"documents is not in the input \(first: x\)"):
        Reranker("knrm", SAMPLE).transform(unknown)
    with pytest.raises(InputError, match="duplicate"):
        Reranker("knrm", SAMPLE).transform(pd.concat([candidates, candidates]))


@pytest.mark.filterwarnings("ignore:There are shared pipeline components")
def test_example_of_the_document_runs(monkeypatch):
    text = (ROOT / "submission" / "aragorn" / "search" / "README.md").read_text()
    [code] = re.findall(r"```python\n(import pyterrier.*?)```", text, re.DOTALL)
    monkeypatch.chdir(ROOT)
    names = {"Path": Path}
    exec(code.replace("pt.Experiment", "table = pt.Experiment"), names)
    assert names["table"]["nDCG@5"].round(3).tolist() == [0.644, 0.465]
