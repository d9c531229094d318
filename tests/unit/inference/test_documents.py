"""Tests of scoring and enriching documents: order, shards, warnings."""

from collections import Counter
from itertools import chain
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch

from aragorn.cache import Parts
from aragorn.engine import CPU, LOCAL_ENGINE
from aragorn.errors import CheckpointError
from aragorn.inference import enrichment
from aragorn.inference.checkpoint import RankerCheckpoint, TaggerCheckpoint
from aragorn.inference.enrichment import enrich_collection, enrich_texts
from aragorn.inference.pair_scoring import TokenCache, score_documents, score_texts
from aragorn.models.taggers import Tagger, TokenAnnotation
from aragorn.progress import Stopwatch
from aragorn.systems.lexical import IndexSettings, TermIndex, build_term_index
from tests.conftest import build_text_lookup, build_tiny_ranker

TOPICS = pd.DataFrame({"qid": ["1", "2"], "query": ["Are zoos cruel?", "unheard of"]})
PREMISES = ["zoos are cruel", "golf every day", "", "wild animals in cages " * 40]
CORPUS = pd.DataFrame({"docno": list("abcd"), "premise": PREMISES})
TOKENS = TokenCache(TOPICS, lambda docnos: CORPUS[CORPUS["docno"].isin(docnos)], Stopwatch())
CANDIDATES = pd.DataFrame(
    {"qid": ["1", "1", "1", "2", "2", "1"], "docno": ["d", "a", "b", "a", "c", "c"]}
)


@pytest.fixture
def knrm():
    torch.manual_seed(0)
    words = ["zoos", "are", "cruel", "golf", "wild", "animals"]
    ranker, tokeniser = build_tiny_ranker("knrm", words)
    ranker.cpu_batch_size = ranker.shard_size = 2
    return RankerCheckpoint(ranker.eval(), tokeniser, "a test")


def score(checkpoint, directory, candidates=CANDIDATES):
    return score_documents(candidates, TOKENS, checkpoint, CPU, Parts(directory))


def test_candidates_are_scored_in_order(knrm, tmp_path):
    queries = dict(TOPICS.to_numpy().tolist())
    premises = dict(CORPUS.to_numpy().tolist())
    expected = [
        float(score_texts(knrm, [(queries[qid], premises[docno])])[0])
        for qid, docno in CANDIDATES.to_numpy()
    ]
    np.testing.assert_allclose(score(knrm, tmp_path), expected, rtol=0, atol=1e-6)
    assert len(set(expected)) > 3
    assert Parts(tmp_path).get_names() == ["00000", "00001", "00002"]
    assert score(knrm, tmp_path, CANDIDATES[:0]).shape == (0,)


def test_nan_scores_fail_with_their_document(knrm, tmp_path):
    torch.nn.init.constant_(knrm.network.linear.weight, torch.nan)
    with pytest.raises(CheckpointError, match="document d for topic 1"):
        score(knrm, tmp_path)


TEXTS = [
    " ".join(["Zoos", *["cage"] * (index % 4), f"w{index % 7}.", "Running runs", f"x{index}"])
    for index in range(600)
]
TEXTS[13] = ""
DOCNOS = [f"d{index:03}" for index in range(600)]
COLLECTION = pd.DataFrame({"docno": DOCNOS, "conclusion": "", "premise": TEXTS})


class LengthWeighting(Tagger):
    """A tagger that weights words by their length; words of 1 or 2 letters are dropped."""

    output_name = "length"

    def annotate(self, passages):
        return [
            [TokenAnnotation(word.lower(), 0, 0, float(len(word))) for word in words]
            for words in passages
        ]

    def compute_word_frequencies(self, passages):
        counts = Counter()
        for word in chain.from_iterable(passages):
            counts.update({word.surface: int(word.weight)} if word.weight > 2 else {})
        return counts


@pytest.fixture
def checkpoint():
    sentences = SimpleNamespace(
        split=lambda text: [part.split() for part in text.split(".") if part.strip()]
    )
    return TaggerCheckpoint(LengthWeighting(None), cast(Any, sentences), "a test")


def enrich(checkpoint, directory, count=600):
    """Enrich the first `count` documents, and return the loader of their frequencies."""
    texts = dict(zip(DOCNOS, TEXTS, strict=True))
    read = lambda docnos: [texts[docno] for docno in docnos]  # noqa: E731
    parts = Parts(directory)
    return enrich_collection(DOCNOS[:count], read, checkpoint, CPU, parts, LOCAL_ENGINE)


@pytest.mark.parametrize(("start", "end"), [(0, 600), (200, 300), (256, 512), (590, 900)])
def test_frequencies_are_read_across_shards(start, end, checkpoint, tmp_path):
    expected = enrich_texts(TEXTS, checkpoint, CPU)
    assert (expected[13], expected[1]) == ({}, {"zoos": 4, "cage": 4, "running": 7, "runs": 4})
    assert enrich(checkpoint, tmp_path)(start, end) == expected[start:end]


def test_slow_enrichment_is_announced(checkpoint, tmp_path, monkeypatch, caplog):
    caplog.set_level("WARNING")
    monkeypatch.setattr(enrichment, "MANY_DOCUMENTS", 599)
    enrich(checkpoint, tmp_path, 599)
    assert caplog.text == ""
    enrich(checkpoint, tmp_path / "all")
    message = "enriching 600 documents on a CPU takes hours; use a GPU, or --cache-dir DIR"
    assert message in caplog.text
    caplog.clear()
    enrich(checkpoint, tmp_path / "all")
    assert caplog.text == ""


def test_index_sums_passage_frequencies(checkpoint, tmp_path):
    indexes = {}
    for stemmer in ("porter", "none"):
        (tmp_path / stemmer).mkdir()
        inputs = DOCNOS, build_text_lookup(COLLECTION), IndexSettings(stemmer=stemmer)
        build_term_index(tmp_path / stemmer, *inputs, enrich(checkpoint, tmp_path / "enriched"))
        indexes[stemmer] = TermIndex(tmp_path / stemmer, inputs[-1])
    index = indexes["porter"]
    terms, frequencies = index.get_document_terms(1)
    assert dict(zip(terms, frequencies.tolist(), strict=True)) == {"zoo": 4, "cage": 4, "run": 11}
    assert (len(index.lengths), index.lengths[1], index.lengths[13]) == (600, 19, 0)
    statistics = index.get_statistics(["run"])
    assert (statistics.df.tolist(), statistics.cf.tolist()) == ([599], [599 * 11])
    assert 13 not in index.get_postings("run")[0]
    expected = {"run": 5, "b": 1}
    assert index.count_enriched_terms({"Running": 2, "run's": 3, "the": 9, "a-b": 1}) == expected
    assert {"running", "runs"} <= {*indexes["none"].terms}
