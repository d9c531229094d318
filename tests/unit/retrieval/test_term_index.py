"""The term index: its counts, their independence of shards, and resumption of an interrupted build."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.retrieval import term_index as term_index_module
from submission.retrieval.fields import select_texts
from submission.retrieval.term_index import INDEX_FILES, IndexSettings, TermIndex, load_or_build_term_index
from submission.storage.artifact_store import ArtifactStore
from submission.text.index_terms import Stemmer, TermAnalyser
from tests.conftest import build_text_lookup, read_files

DOCUMENTS = pd.DataFrame(
    {
        "docno": [f"d{row:02}" for row in range(40)],
        "conclusion": [f"zoos {'cages ' * (row % 3)}" for row in range(40)],
        "premise": [f"zoos w{row % 7} w{row % 11} “w{row % 5}”…x" if row != 13 else "the" for row in range(40)],
    }
)


WORDS = IndexSettings(stemmer="none")


def build(directory: Path, documents: pd.DataFrame = DOCUMENTS, settings: IndexSettings = WORDS) -> TermIndex:
    store = ArtifactStore(directory, {}, overwrite=True)
    return load_or_build_term_index(documents["docno"].tolist(), build_text_lookup(documents), settings, store)


def test_index_counts_terms(tmp_path: Path) -> None:
    index, terms_of = build(tmp_path / "index"), TermAnalyser("none")
    counts = [Counter(terms_of.analyse(f"{row.conclusion} {row.premise}")) for row in DOCUMENTS.itertuples()]
    everything = sum(counts, Counter())
    assert index.terms == sorted(everything)
    assert index.lengths.tolist() == [count.total() for count in counts]
    assert index.tokens == everything.total()
    for i, count in enumerate(counts):
        terms, frequencies = index.get_document_terms(i)
        assert dict(zip(terms, frequencies.tolist(), strict=True)) == count
        assert terms == sorted(terms)
    for term in index.terms:
        documents, frequencies = index.get_postings(term)
        assert documents.tolist() == [i for i, count in enumerate(counts) if count[term]]
        assert frequencies.tolist() == [count[term] for count in counts if count[term]]
    terms = index.get_statistics(["zoos", "unheard", "cages"])
    assert terms.documents == 40
    assert terms.df.tolist() == [40, 0, sum("cages" in count for count in counts)]
    assert terms.cf.tolist() == [everything["zoos"], 0, everything["cages"]]
    assert [values.tolist() for values in index.get_postings("unheard")] == [[], []]
    assert {array.dtype for array in (index.by_term.indices, index.by_term.data, index.lengths)} == {np.dtype(np.int32)}


def test_fields(tmp_path: Path) -> None:
    index = build(tmp_path / "premise", settings=IndexSettings("premise", "none"))
    assert index.get_postings("cages")[0].size == 0
    once = DOCUMENTS.assign(conclusion=DOCUMENTS["premise"])  # as in the TIREx format
    assert build(tmp_path / "once", once).tokens == index.tokens


def test_result_does_not_depend_on_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "whole")
    for size, at_a_time in ((1, 1), (7, 3), (39, 256)):
        monkeypatch.setattr(term_index_module, "SHARD_SIZE", size)
        monkeypatch.setattr(term_index_module, "TOKENISE_BATCH", at_a_time)
        build(tmp_path / f"{size}")
        assert read_files(tmp_path / f"{size}") == read_files(tmp_path / "whole")
    assert {*read_files(tmp_path / "whole")} == {*INDEX_FILES, "manifest.json"}


def test_build_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "whole")
    monkeypatch.setattr(term_index_module, "SHARD_SIZE", 10)
    texts, count, starts = select_texts(DOCUMENTS, "conclusion premise"), term_index_module._count_texts, []

    def stop_after_shard(stemmer: Stemmer, shard: Sequence[str]) -> bytes:
        starts.append(texts.index(shard[0]))
        if starts == [0, 10, 20]:
            raise KeyboardInterrupt
        return count(stemmer, shard)

    monkeypatch.setattr(term_index_module, "_count_texts", stop_after_shard)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "stopped")
    build(tmp_path / "stopped")
    assert starts == [0, 10, 20, 20, 30]
    assert read_files(tmp_path / "stopped") == read_files(tmp_path / "whole")


@pytest.mark.parametrize("text", ["", "the of and", "…"])
def test_empty_collection_fails(tmp_path: Path, text: str) -> None:
    index = build(tmp_path, pd.DataFrame({"docno": ["a", "b"], "conclusion": text, "premise": text}))
    assert (index.terms, index.tokens, index.lengths.tolist()) == ([], 0, [0, 0])
    assert index.get_statistics(["zoos"]).df.tolist() == [0]
    assert index.get_document_terms(1)[0] == []
