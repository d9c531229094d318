"""Enrichment of a collection: cached in shards, resumed after an interruption, and indexed by terms."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pandas as pd
import pytest
import torch

from submission.engine.base import LocalEngine
from submission.inference import enrichment
from submission.inference.enricher_checkpoint import EnricherCheckpoint
from submission.inference.enrichment import annotate_texts, enrich_collection, enrich_separately, enrich_texts
from submission.models.enricher import Enricher, TokenAnnotation
from submission.retrieval import term_index as term_index_module
from submission.retrieval.term_index import IndexSettings, TermIndex, load_or_build_term_index
from submission.storage.artifact_store import ArtifactStore
from tests.conftest import build_text_lookup, read_files

CPU = torch.device("cpu")
TEXTS = [" ".join(["Zoos", *["cage"] * (index % 4), f"w{index % 7}.", "Running runs", f"x{index}"]) for index in range(50)]
TEXTS[13] = ""
DOCNOS = [f"d{index:02}" for index in range(50)]
COLLECTION = pd.DataFrame({"docno": DOCNOS, "conclusion": "", "premise": TEXTS})


def select_premises(docnos: Sequence[str]) -> list[str]:
    """Return the texts of documents."""
    return [TEXTS[DOCNOS.index(docno)] for docno in docnos]


@dataclass
class Passage:
    text: str

    def __len__(self) -> int:
        return len(self.text.split())


class LengthWeighting(Enricher[Passage]):
    """An enricher that weights each word by its length; words of one or two letters are not indexed."""

    output_name = "length"

    def __init__(self) -> None:
        super().__init__(None)
        self.computed: list[list[str]] = []

    def annotate(self, passages: Sequence[Passage]) -> list[list[TokenAnnotation]]:
        self.computed.append([passage.text for passage in passages])
        return [
            [TokenAnnotation(word.lower(), 0, 0, float(len(word))) for word in passage.text.split()] for passage in passages
        ]

    def compute_term_frequencies(self, passages: Sequence[Sequence[TokenAnnotation]]) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for passage in passages:
            counts.update({word.surface: int(word.weight) for word in passage if word.weight > 2})
        return counts


class SentenceTokeniser:
    file: ClassVar[str] = "none"

    def split(self, text: str) -> list[Passage]:
        return [Passage(part) for part in text.split(".") if part.strip()]


@pytest.fixture
def opened() -> EnricherCheckpoint:
    reader: Any = SentenceTokeniser()
    return EnricherCheckpoint(LengthWeighting(), reader, "a test")


def run(opened: EnricherCheckpoint, directory: Path) -> list[Mapping[str, int]]:
    return enrich_collection(DOCNOS, select_premises, opened, CPU, ArtifactStore(directory, {}))(0, len(TEXTS))


def test_passages_are_assigned_to_their_texts(opened: EnricherCheckpoint) -> None:
    texts = ["one. two three four. five six", "", "seven eight nine ten eleven"]
    annotations = annotate_texts(texts, opened, CPU)
    assert [[[word.surface for word in passage] for passage in passages] for passages in annotations] == [
        [["one"], ["two", "three", "four"], ["five", "six"]], [], [["seven", "eight", "nine", "ten", "eleven"]],
    ]  # fmt: skip
    assert isinstance(opened.network, LengthWeighting)
    assert opened.network.computed == [["seven eight nine ten eleven", " two three four", " five six", "one"]]
    assert enrich_texts(["a bb ccc dddd. ccc"], opened, CPU) == [{"ccc": 6, "dddd": 4}]


def test_result_does_not_depend_on_shards(opened: EnricherCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(opened, tmp_path / "expected")
    assert (len(expected), expected[13], expected[1]) == (50, {}, {"zoos": 4, "cage": 4, "running": 7, "runs": 4})
    for size in (1, 7, 49):
        monkeypatch.setattr(enrichment, "SHARD_SIZE", size)
        assert run(opened, tmp_path / f"{size}") == expected
        load_frequencies = enrich_collection(DOCNOS, select_premises, opened, CPU, ArtifactStore(tmp_path / f"{size}", {}))
        assert load_frequencies(3, 21) == expected[3:21]
        assert load_frequencies(40, 90) == expected[40:]


def test_other_engine_computes_missing_texts(opened: EnricherCheckpoint, tmp_path: Path) -> None:
    functions: list[str] = []

    class ReversedEngine(LocalEngine):
        def map(self, function, parts, device):  # type: ignore[no-untyped-def]
            functions.append(getattr(function, "func", function).__name__)
            return ((index, function(part)) for index, part in list(parts)[::-1])

    enrich_collection(DOCNOS, select_premises, opened, CPU, ArtifactStore(tmp_path / "other", {}), ReversedEngine())
    run(opened, tmp_path / "here")
    local, remote = ({file.name: file.read_bytes() for file in (tmp_path / name).glob("part-*")} for name in ("here", "other"))
    assert local == remote
    assert functions == ["measure_sample", "encode_shard"]
    assert isinstance(opened.network, LengthWeighting)
    opened.network.computed.clear()
    assert enrich_separately(opened, CPU, ["one", "seven"]) == [{"one": 3}, {"seven": 5}]
    assert opened.network.computed == [["one"], ["seven"]]


def test_time_is_shared_by_workers(opened: EnricherCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FourWorkerEngine(LocalEngine):
        def worker_count(self, device: torch.device) -> int:
            return 4

    estimates: list[float] = []
    clock = iter([100.0, 100.0 + 20 * 60])
    monkeypatch.setattr(enrichment, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(
        enrichment, "log", SimpleNamespace(info=lambda message, *args: estimates.append(args[2]), warning=lambda *args: None)
    )
    enrich_collection(DOCNOS, select_premises, opened, CPU, ArtifactStore(tmp_path, {}), FourWorkerEngine())
    assert estimates == [62.5 / 4]


def test_enrichment_resumes_after_kills(
    opened: EnricherCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(enrichment, "SHARD_SIZE", 10)
    run(opened, tmp_path / "whole")
    enrich_texts_original, computed = enrichment.enrich_texts, []

    def interrupt(texts: Sequence[str], *args: Any) -> list[Mapping[str, int]]:
        if len(texts) == 10:
            computed.append(TEXTS.index(texts[0]) // 10)
            if len(computed) in (2, 4, 6):
                raise KeyboardInterrupt
        return enrich_texts_original(texts, *args)

    monkeypatch.setattr(enrichment, "enrich_texts", interrupt)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run(opened, tmp_path / "killed")
    with caplog.at_level(logging.INFO):
        run(opened, tmp_path / "killed")
    assert computed == [0, 1, 1, 2, 2, 3, 3, 4]
    assert read_files(tmp_path / "killed") == read_files(tmp_path / "whole")
    assert ": 20 documents to enrich, about" in caplog.text
    run(opened, tmp_path / "killed")
    assert len(computed) == 8


@pytest.mark.parametrize(("share", "minutes"), [(64, 62.5), (1, 25.0)])  # 20 minutes for a sample of 16, or for a shard of 40
def test_time_and_size_are_estimated_first(
    opened: EnricherCheckpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    share: int,
    minutes: float,
) -> None:
    clock, messages, compute_shards = iter([100.0, 100.0 + 20 * 60]), [], enrichment.compute_shards

    def record_messages(*args: Any) -> Callable[[int], bytes]:
        messages.extend(caplog.messages)
        return compute_shards(*args)

    monkeypatch.setattr(enrichment, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(enrichment, "compute_shards", record_messages)
    monkeypatch.setattr(enrichment, "SHARD_SIZE", 40)
    monkeypatch.setattr(enrichment, "SAMPLE_INTERVAL", share)
    with caplog.at_level(logging.INFO):
        run(opened, tmp_path)
    estimate, *warnings = messages
    assert f"50 documents to enrich, about {minutes} minutes and 0.0 MB" in estimate
    assert ["--cache-dir DIR to resume after an interruption" in warning for warning in warnings] == [True] * (
        minutes > enrichment.LONG_MINUTES
    )


def test_index_sums_passage_frequencies(opened: EnricherCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_index_module, "SHARD_SIZE", 20)
    monkeypatch.setattr(enrichment, "SHARD_SIZE", 7)

    def enrich() -> enrichment.FrequencyLoader:
        return enrich_collection(DOCNOS, select_premises, opened, CPU, ArtifactStore(tmp_path / "parts", {}))

    def build(settings: IndexSettings) -> TermIndex:
        cache = ArtifactStore(tmp_path / settings.stemmer, {})
        return load_or_build_term_index(COLLECTION["docno"].tolist(), build_text_lookup(COLLECTION), settings, cache, enrich)

    index = build(IndexSettings(stemmer="porter"))
    index_terms, frequencies = index.get_document_terms(1)
    assert dict(zip(index_terms, frequencies.tolist(), strict=True)) == {"zoo": 4, "cage": 4, "run": 11}
    assert index.lengths[[1, 13]].tolist() == [19, 0]
    assert (len(index.lengths), index.get_statistics(["run"]).df.tolist(), index.get_statistics(["run"]).cf.tolist()) == (
        50,
        [49],
        [539],
    )
    assert 13 not in index.get_postings("run")[0]
    assert index.count_enriched_terms({"Running": 2, "run's": 3, "the": 9, "a-b": 1}) == {"run": 5, "b": 1}
    assert {"running", "runs"} <= {*build(IndexSettings(stemmer="none")).terms}
