"""A collection of words with frequencies: in kept parts, goes on where it was killed, and becomes a term index."""

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

from submission.disk.kept import Kept
from submission.engine.engine import Here
from submission.enrichment import enriched
from submission.enrichment.base import Enricher, Word
from submission.enrichment.checkpoint import EnricherCheckpoint
from submission.enrichment.enriched import enrich, enrich_separately, read, words_of
from submission.retrieval import terms
from submission.retrieval.terms import Settings, TermIndex, term_index
from tests.conftest import contents, texts_in

CPU = torch.device("cpu")
TEXTS = [" ".join(["Zoos", *["cage"] * (number % 4), f"w{number % 7}.", "Running runs", f"x{number}"]) for number in range(50)]
TEXTS[13] = ""
DOCNOS = [f"d{number:02}" for number in range(50)]
COLLECTION = pd.DataFrame({"docno": DOCNOS, "conclusion": "", "premise": TEXTS})


def texts_of(docnos: Sequence[str]) -> list[str]:
    """The texts of some documents."""
    return [TEXTS[DOCNOS.index(docno)] for docno in docnos]


@dataclass
class Passage:
    text: str

    def __len__(self) -> int:
        return len(self.text.split())


class Counting(Enricher[Passage]):
    """Says of each word how long it is; words of one letter or of two are not indexed."""

    value = "length"

    def __init__(self) -> None:
        super().__init__(None)
        self.computed: list[list[str]] = []

    def words(self, passages: Sequence[Passage]) -> list[list[Word]]:
        self.computed.append([passage.text for passage in passages])
        return [[Word(word.lower(), 0, 0, float(len(word))) for word in passage.text.split()] for passage in passages]

    def frequencies(self, passages: Sequence[Sequence[Word]]) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for passage in passages:
            counts.update({word.text: int(word.weight) for word in passage if word.weight > 2})
        return counts


class Sentences:
    file: ClassVar[str] = "none"

    def passages(self, text: str) -> list[Passage]:
        return [Passage(part) for part in text.split(".") if part.strip()]


@pytest.fixture
def opened() -> EnricherCheckpoint:
    reader: Any = Sentences()
    return EnricherCheckpoint(Counting(), reader, "a test")


def run(opened: EnricherCheckpoint, directory: Path) -> list[Mapping[str, int]]:
    return enrich(DOCNOS, texts_of, opened, CPU, Kept(directory, {})).between(0, len(TEXTS))


def test_passages_come_back_to_their_texts(opened: EnricherCheckpoint) -> None:
    texts = ["one. two three four. five six", "", "seven eight nine ten eleven"]
    found = read(texts, opened, CPU)
    assert [[[word.text for word in passage] for passage in passages] for passages in found] == [
        [["one"], ["two", "three", "four"], ["five", "six"]], [], [["seven", "eight", "nine", "ten", "eleven"]],
    ]  # fmt: skip
    assert isinstance(opened.enricher, Counting)
    assert opened.enricher.computed == [["seven eight nine ten eleven", " two three four", " five six", "one"]]
    assert words_of(["a bb ccc dddd. ccc"], opened, CPU) == [{"ccc": 6, "dddd": 4}]


def test_parts_do_not_matter(opened: EnricherCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(opened, tmp_path / "whole")
    assert (len(whole), whole[13], whole[1]) == (50, {}, {"zoos": 4, "cage": 4, "running": 7, "runs": 4})
    for size in (1, 7, 49):
        monkeypatch.setattr(enriched, "TOGETHER", size)
        assert run(opened, tmp_path / f"{size}") == whole
        found = enrich(DOCNOS, texts_of, opened, CPU, Kept(tmp_path / f"{size}", {}))
        assert found.between(3, 21) == whole[3:21]
        assert found.between(40, 90) == whole[40:]


def test_another_engine_computes_what_is_missing_and_each_text_alone(opened: EnricherCheckpoint, tmp_path: Path) -> None:
    asked: list[str] = []

    class Backwards(Here):
        def map(self, function, parts, device):  # type: ignore[no-untyped-def]
            asked.append(getattr(function, "func", function).__name__)
            return ((number, function(part)) for number, part in list(parts)[::-1])

    enrich(DOCNOS, texts_of, opened, CPU, Kept(tmp_path / "other", {}), Backwards())
    run(opened, tmp_path / "here")
    files = [{file.name: file.read_bytes() for file in (tmp_path / one).glob("part-*")} for one in ("here", "other")]
    assert files[0] == files[1]
    assert asked == ["measure_sample", "encode_shard"]
    assert isinstance(opened.enricher, Counting)
    opened.enricher.computed.clear()
    assert enrich_separately(opened, CPU, ["one", "seven"]) == [{"one": 3}, {"seven": 5}]
    assert opened.enricher.computed == [["one"], ["seven"]]


def test_time_is_shared_by_workers(opened: EnricherCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Four(Here):
        def workers(self, device: torch.device) -> int:
            return 4

    said: list[float] = []
    clock = iter([100.0, 100.0 + 20 * 60])
    monkeypatch.setattr(enriched, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(enriched, "_tell", lambda name, documents, minutes, *rest: said.append(minutes))
    enrich(DOCNOS, texts_of, opened, CPU, Kept(tmp_path, {}), Four())
    assert said == [62.5 / 4]


def test_killed_three_times_it_goes_on(
    opened: EnricherCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(enriched, "TOGETHER", 10)
    run(opened, tmp_path / "whole")
    words, made = enriched.words_of, []

    def stops(texts: Sequence[str], *rest: Any) -> list[Mapping[str, int]]:
        if len(texts) == 10:
            made.append(TEXTS.index(texts[0]) // 10)
            if len(made) in (2, 4, 6):
                raise KeyboardInterrupt
        return words(texts, *rest)

    monkeypatch.setattr(enriched, "words_of", stops)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run(opened, tmp_path / "killed")
    with caplog.at_level(logging.INFO):
        run(opened, tmp_path / "killed")
    assert made == [0, 1, 1, 2, 2, 3, 3, 4]
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert ": 20 documents to enrich, about" in caplog.text
    run(opened, tmp_path / "killed")
    assert len(made) == 8


@pytest.mark.parametrize(("share", "minutes"), [(64, 62.5), (1, 25.0)])  # 20 minutes for 16 of 50, and for the 40 of a part
def test_time_and_size_are_said_before(
    opened: EnricherCheckpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    share: int,
    minutes: float,
) -> None:
    clock, before, parts = iter([100.0, 100.0 + 20 * 60]), [], enriched.kept_parts

    def begins(*given: Any) -> Callable[[int], bytes]:
        before.extend(caplog.messages)
        return parts(*given)

    monkeypatch.setattr(enriched, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(enriched, "kept_parts", begins)
    monkeypatch.setattr(enriched, "TOGETHER", 40)
    monkeypatch.setattr(enriched, "SHARE", share)
    with caplog.at_level(logging.INFO):
        run(opened, tmp_path)
    said, *warned = before
    assert f"50 documents to enrich, about {minutes} minutes and 0.0 MB" in said
    assert ["--work DIR to resume after an interruption" in warning for warning in warned] == [True] * (minutes > enriched.LONG)


def test_the_index_has_their_terms_added_up(
    opened: EnricherCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "KEPT_TOGETHER", 20)
    monkeypatch.setattr(enriched, "TOGETHER", 7)

    def enriching() -> enriched.Enriched:
        return enrich(DOCNOS, texts_of, opened, CPU, Kept(tmp_path / "parts", {}))

    def build(settings: Settings) -> TermIndex:
        kept = Kept(tmp_path / settings.stemmer, {})
        return term_index(COLLECTION["docno"].tolist(), texts_in(COLLECTION), settings, kept, enriching)

    index = build(Settings(stemmer="porter"))
    found, frequencies = index.document(1)
    assert dict(zip(found, frequencies.tolist(), strict=True)) == {"zoo": 4, "cage": 4, "run": 11}
    assert index.lengths[[1, 13]].tolist() == [19, 0]
    assert (len(index.lengths), index.statistics(["run"]).df.tolist(), index.statistics(["run"]).cf.tolist()) == (
        50,
        [49],
        [539],
    )
    assert 13 not in index.postings("run")[0]
    assert index.counted_words({"Running": 2, "run's": 3, "the": 9, "a-b": 1}) == {"run": 5, "b": 1}
    assert {"running", "runs"} <= {*build(Settings(stemmer="none")).terms}
