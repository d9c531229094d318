"""The benchmarks do the work that they time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from submission.data.topics import find_topic_files
from submission.models.padding import pad
from tests.benchmarks import (
    bert,
    bfloat16,
    corpus,
    deepct,
    fusion,
    precision,
    rank,
    readme,
    retrieval,
    scaling,
    targer,
    training,
    word_networks,
)
from tests.benchmarks.__main__ import BENCHMARKS
from tests.benchmarks.benchmark import Benchmark, Result, compare, seconds
from tests.benchmarks.synthetic_inputs import full_size, halves_of_topics, part_of
from tests.conftest import ROOT, SAMPLE, load_topics


def test_a_ratio_is_of_medians() -> None:
    benchmark = Benchmark("a", "b", "things", 10, lambda: None, lambda: sum(range(200_000)))
    assert [len(times) for times in seconds(benchmark, 2)] == [2, 2]
    result = compare(benchmark, "nothing", 2, 3)
    medians = [sorted(result.seconds[side])[1] for side in ("ours", "baseline")]
    assert result.ratio == pytest.approx(medians[1] / medians[0])
    assert result.ratio > 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the baseline's own
def test_bert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bert, "PAIRS", 6)
    benchmark = bert.bert("cedr_knrm", SAMPLE)
    benchmark.ours()
    assert benchmark.units == len(benchmark.baseline()) == 6  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the baseline's own
def test_deepct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepct, "ARGUMENTS", 3)
    benchmark = deepct.encoding(SAMPLE)
    words = benchmark.ours()
    assert isinstance(words, list)
    assert len(words) == 3
    assert benchmark.units == len(benchmark.baseline())  # type: ignore[arg-type]
    monkeypatch.setattr(deepct, "PARTS", (1, 2))
    assert deepct.memory().ratio > 0.5


def test_targer() -> None:
    benchmark = targer.tagging(SAMPLE)
    ours, alone = benchmark.ours(), benchmark.baseline()
    assert isinstance(ours, list)
    assert ours == alone
    assert benchmark.units == sum(len(words) for passages in ours for words in passages) > 10_000
    assert targer.ASKED == 15_000


@pytest.mark.slow
def test_lower_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "candidates_of", few_candidates)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    results = precision.lower(SAMPLE, SAMPLE.parent / "sample.qrels")
    assert [result.name for result in results] == ["bfloat16", "dynamic int8"]
    for result in results:
        assert result.ratio == pytest.approx(sum(result.seconds["float32"]) / sum(result.seconds[result.name]))
        assert len(result.seconds[result.name]) == 2
        speeds, effects = zip(*(side.split(", ", 1) for side in (result.ours, result.baseline)), strict=True)
        assert all(speed.endswith(" pairs/s") for speed in speeds)
        assert [float(effect.split()[2].rstrip(",")) > 0 for effect in effects] == [True, True]


def few_candidates(*arguments: Any) -> tuple[pd.DataFrame, word_networks.Ids]:
    """Three documents of two topics each."""
    candidates, ids = word_networks.candidates_of(*arguments)
    return candidates.groupby("qid", sort=False).head(3).head(6).reset_index(drop=True), ids


@pytest.mark.slow
def test_both_sides_score_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert word_networks.scoring("knrm", SAMPLE).units > 400
    monkeypatch.setattr(word_networks, "pad", lambda texts: pad([text[1:] for text in texts]))  # of the baseline alone
    with pytest.raises(AssertionError, match="the two sides differ"):
        word_networks.scoring("knrm", SAMPLE)


@pytest.mark.slow
def test_inputs_are_of_the_size_that_is_asked_for(tmp_path: Path) -> None:
    full = full_size(SAMPLE, tmp_path / "full", 1200)
    benchmark = retrieval.bm25(full)
    assert benchmark.units == 15
    speed, memory, kept = corpus.corpus_reading(full, tmp_path, 1)
    assert speed.ratio == pytest.approx(speed.seconds["baseline"][0] / speed.seconds["ours"][0])
    assert 0.5 < memory.ratio < 2
    assert kept.seconds["arguments"] == [120, 1200]
    assert all(0.1 < peak < 1 for peak in kept.seconds["peaks"])
    half = part_of(full, tmp_path / "half", 0.5)
    assert len(json.loads((half / "args-me.json").read_text())["arguments"]) == 600
    topics = [set(load_topics(find_topic_files(place))["qid"]) for place in halves_of_topics(full, tmp_path / "halves")]
    assert [len(part) for part in topics] == [8, 7]
    assert not topics[0] & topics[1]


@pytest.mark.slow
def test_a_second_execution_is_measured_without_the_systems_own_work() -> None:
    result = rank.second(SAMPLE, "bm25")
    assert result.ratio > 0.5
    assert {"first, documents", "second, index"} <= set(result.seconds)
    assert "second, documents" not in result.seconds


@pytest.mark.slow
def test_a_fusion_of_words_is_measured_with_its_indexes_kept() -> None:
    speed, memory = fusion.fusion(SAMPLE)
    times = {name: value for name, [value] in speed.seconds.items()}
    assert set(times) == {"indexes kept", "indexes made"}
    assert speed.ratio == pytest.approx(180 / times["indexes kept"])
    assert 1 < memory.ratio < 60


@pytest.mark.slow
def test_the_default_is_measured_cold_and_kept() -> None:
    cold, kept = rank.default(SAMPLE)
    assert [line.what.rpartition(", ")[2] for line in (cold, kept)] == ["nothing kept", "all kept"]
    assert "term index" in cold.seconds
    assert "term index" not in kept.seconds
    assert (cold.baseline, kept.baseline) == ("240 s", "60 s")


@pytest.mark.slow
def test_both_sides_of_half_precision_encode_the_same_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.setattr(bfloat16, "DOCUMENTS", 3)
    monkeypatch.setattr(bfloat16, "PREMISES", 4)
    words, vectors = bfloat16.halves(SAMPLE)
    assert (words.units, vectors.units) == (3, 4)
    assert len(words.ours()) == len(words.baseline()) == 3  # type: ignore[arg-type]
    ours, baseline = vectors.ours(), vectors.baseline()
    assert ours.shape == baseline.shape == (4, 384)  # type: ignore[attr-defined]
    assert 1e-5 < abs(ours - baseline).max() < 0.05  # type: ignore[operator]


@pytest.mark.slow
def test_training_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "ROWS", 300)
    benchmark = training.knrm_training(SAMPLE)
    benchmark.ours()
    benchmark.baseline()
    assert benchmark.units == 20


def test_a_straight_line_has_its_slope() -> None:
    assert scaling.steepness([(1, 3), (10, 300), (100, 30_000)]) == pytest.approx(2)


@pytest.mark.slow
def test_growth_draws_what_it_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, sizes in (("SHARES", (0.5, 1)), ("CANDIDATES", (2, 8)), ("BERT_CANDIDATES", (2,))):
        monkeypatch.setattr(scaling, name, sizes)
    monkeypatch.setattr(scaling, "names", lambda: ["gru", "knrm", "vanilla_bert"])
    panels = scaling.draw(SAMPLE, SAMPLE, tmp_path / "growth.png")
    sizes = {what: {name: [size for size, _ in points] for name, points in own.items()} for what, own in panels.items()}
    assert [*sizes] == ["topics", "candidates of one topic", "arguments in the corpus"]
    assert sizes["topics"] == {name: [1, 3, 7, 15] for name in ("gru", "knrm")}
    assert sizes["candidates of one topic"]["gru"] == [2, 8]
    assert sizes["candidates of one topic"]["vanilla_bert"] == [2]
    assert all(seconds > 0 for own in panels.values() for points in own.values() for _, seconds in points)
    assert (tmp_path / "growth.png").read_bytes()[:4] == b"\x89PNG"


def test_the_readmes_table_is_that_of_the_results(tmp_path: Path) -> None:
    results = ROOT / "tests" / "benchmarks" / "measured.json"
    for place in readme.PLACES.values():
        (tmp_path / place).parent.mkdir(parents=True)
        shutil.copy(ROOT / place, tmp_path / place)
    readme.update(results, tmp_path)
    for place in readme.PLACES.values():
        assert (tmp_path / place).read_text(encoding="utf-8") == (ROOT / place).read_text(encoding="utf-8")
    copy = tmp_path / readme.PLACES["speed"]
    measured = json.loads(results.read_text(encoding="utf-8"))["results"]
    assert list(measured) == [name for name in BENCHMARKS if name in measured]
    for result in (Result(**line) for found in measured.values() for line in found):
        assert f"| {result.what} | {result.ours} |" in copy.read_text(encoding="utf-8")
        assert f"| {result.ratio:.2f} |" in copy.read_text(encoding="utf-8")
