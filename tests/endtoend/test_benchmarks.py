"""Tests of the benchmarks on small inputs."""

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
from tests.benchmarks.benchmark import Benchmark, Result, compare, time_rounds
from tests.benchmarks.synthetic_inputs import split_topics, write_full_size, write_sample
from tests.conftest import ROOT, SAMPLE, load_topics


def test_compare_returns_the_ratio_of_medians() -> None:
    benchmark = Benchmark("sum", "loop", "numbers", 10, lambda: None, lambda: sum(range(200_000)))
    assert [len(times) for times in time_rounds(benchmark, 2)] == [2, 2]
    result = compare(benchmark, "task", 2, 3)
    medians = [sorted(result.seconds[side])[1] for side in ("ours", "baseline")]
    assert result.ratio == pytest.approx(medians[1] / medians[0])
    assert result.ratio > 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # warnings of the baseline
def test_bert_benchmark_scores_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bert, "PAIRS", 6)
    benchmark = bert.build_benchmark("cedr_knrm", SAMPLE)
    benchmark.ours()
    assert benchmark.units == len(benchmark.baseline()) == 6  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # warnings of the baseline
def test_deepct_benchmark_enriches_the_same_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepct, "ARGUMENTS", 3)
    benchmark = deepct.build_benchmark(SAMPLE)
    enriched_texts = benchmark.ours()
    assert isinstance(enriched_texts, list)
    assert len(enriched_texts) == 3
    assert benchmark.units == len(benchmark.baseline())  # type: ignore[arg-type]
    monkeypatch.setattr(deepct, "SHARDS", (1, 2))
    assert deepct.measure_memory().ratio > 0.5


def test_targer_benchmark_yields_equal_tags() -> None:
    benchmark = targer.build_benchmark(SAMPLE)
    tags, baseline = benchmark.ours(), benchmark.baseline()
    assert isinstance(tags, list)
    assert tags == baseline
    assert benchmark.units == sum(len(passage) for passages in tags for passage in passages) > 10_000


@pytest.mark.slow
def test_measure_precision_compares_speed_and_ndcg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "load_candidates", load_few_candidates)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    results = precision.measure(SAMPLE, SAMPLE.parent / "sample.qrels")
    assert [result.name for result in results] == ["bfloat16", "dynamic int8"]
    for result in results:
        assert result.ratio == pytest.approx(sum(result.seconds["float32"]) / sum(result.seconds[result.name]))
        assert len(result.seconds[result.name]) == 2
        speeds, measures = zip(*(side.split(", ", 1) for side in (result.ours, result.baseline)), strict=True)
        assert all(speed.endswith(" pairs/s") for speed in speeds)
        assert [float(text.split()[2].rstrip(",")) > 0 for text in measures] == [True, True]


def load_few_candidates(*args: Any) -> tuple[pd.DataFrame, word_networks.TokenIds]:
    """Load three documents of each of two topics."""
    candidates, ids = word_networks.load_candidates(*args)
    return candidates.groupby("qid", sort=False).head(3).head(6).reset_index(drop=True), ids


@pytest.mark.slow
def test_build_benchmark_requires_equal_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert word_networks.build_benchmark("knrm", SAMPLE).units > 400
    # Only the baseline calls this function.
    monkeypatch.setattr(word_networks, "pad", lambda texts: pad([text[1:] for text in texts]))
    with pytest.raises(AssertionError, match="scores differ from the baseline"):
        word_networks.build_benchmark("knrm", SAMPLE)


@pytest.mark.slow
def test_synthetic_inputs_have_the_requested_size(tmp_path: Path) -> None:
    input_dir = write_full_size(SAMPLE, tmp_path / "full", 1200)
    benchmark = retrieval.build_benchmark(input_dir)
    assert benchmark.units == 15
    speed, memory, streamed = corpus.measure(input_dir, tmp_path, 1)
    assert speed.ratio == pytest.approx(speed.seconds["baseline"][0] / speed.seconds["ours"][0])
    assert 0.5 < memory.ratio < 2
    assert streamed.seconds["arguments"] == [120, 1200]
    assert all(0.1 < peak < 1 for peak in streamed.seconds["peaks"])
    half = write_sample(input_dir, tmp_path / "half", 0.5)
    assert len(json.loads((half / "args-me.json").read_text())["arguments"]) == 600
    topics = [set(load_topics(find_topic_files(half_dir))["qid"]) for half_dir in split_topics(input_dir, tmp_path / "halves")]
    assert [len(qids) for qids in topics] == [8, 7]
    assert not topics[0] & topics[1]


@pytest.mark.slow
def test_measure_second_run_excludes_scoring() -> None:
    result = rank.measure_second_run(SAMPLE, "bm25")
    assert result.ratio > 0.5
    assert {"first, documents", "second, conclusion index"} <= set(result.seconds)
    assert "second, documents" not in result.seconds


@pytest.mark.slow
def test_measure_fusion_with_cached_indexes() -> None:
    speed, memory = fusion.measure(SAMPLE)
    times = {name: value for name, [value] in speed.seconds.items()}
    assert set(times) == {"cached indexes", "first run"}
    assert speed.ratio == pytest.approx(180 / times["cached indexes"])
    assert 1 < memory.ratio < 60


@pytest.mark.slow
def test_measure_default_system_with_empty_and_filled_cache() -> None:
    cold, cached = rank.measure_default_system(SAMPLE)
    assert [result.task.rpartition(", ")[2] for result in (cold, cached)] == ["empty cache", "cached"]
    assert "term index" in cold.seconds
    assert "term index" not in cached.seconds
    assert (cold.baseline, cached.baseline) == ("240 s", "60 s")


@pytest.mark.slow
def test_bfloat16_benchmarks_encode_the_same_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.setattr(bfloat16, "DOCUMENTS", 3)
    monkeypatch.setattr(bfloat16, "PREMISES", 4)
    deepct_benchmark, sbert_benchmark = bfloat16.build_benchmarks(SAMPLE)
    assert (deepct_benchmark.units, sbert_benchmark.units) == (3, 4)
    assert len(deepct_benchmark.ours()) == len(deepct_benchmark.baseline()) == 3  # type: ignore[arg-type]
    ours, baseline = sbert_benchmark.ours(), sbert_benchmark.baseline()
    assert ours.shape == baseline.shape == (4, 384)  # type: ignore[attr-defined]
    assert 1e-5 < abs(ours - baseline).max() < 0.05  # type: ignore[operator]


@pytest.mark.slow
def test_training_benchmark_runs_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "ROWS", 300)
    benchmark = training.build_benchmark("knrm", 20)
    benchmark.ours()
    benchmark.baseline()
    assert benchmark.units == 20


def test_fit_slope_of_a_quadratic_curve() -> None:
    assert scaling.fit_slope([(1, 3), (10, 300), (100, 30_000)]) == pytest.approx(2)


@pytest.mark.slow
def test_plot_scaling_returns_the_measured_points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, sizes in (("SHARES", (0.5, 1)), ("CANDIDATES", (2, 8)), ("BERT_CANDIDATES", (2,))):
        monkeypatch.setattr(scaling, name, sizes)
    monkeypatch.setattr(scaling, "list_rankers", lambda: ["gru", "knrm", "vanilla_bert"])
    panels = scaling.plot(SAMPLE, SAMPLE, tmp_path / "scaling.png")
    sizes = {axis: {name: [x for x, _ in points] for name, points in curves.items()} for axis, curves in panels.items()}
    assert [*sizes] == ["topics", "candidates of one topic", "arguments in the corpus"]
    assert sizes["topics"] == {name: [1, 3, 7, 15] for name in ("gru", "knrm")}
    assert sizes["candidates of one topic"]["gru"] == [2, 8]
    assert sizes["candidates of one topic"]["vanilla_bert"] == [2]
    assert all(seconds > 0 for curves in panels.values() for points in curves.values() for _, seconds in points)
    assert (tmp_path / "scaling.png").read_bytes()[:4] == b"\x89PNG"


def test_readme_tables_match_results(tmp_path: Path) -> None:
    results = ROOT / "tests" / "benchmarks" / "results.json"
    for file in readme.README_FILES.values():
        (tmp_path / file).parent.mkdir(parents=True)
        shutil.copy(ROOT / file, tmp_path / file)
    readme.update(results, tmp_path)
    for file in readme.README_FILES.values():
        assert (tmp_path / file).read_text(encoding="utf-8") == (ROOT / file).read_text(encoding="utf-8")
    copy = tmp_path / readme.README_FILES["speed"]
    stored = json.loads(results.read_text(encoding="utf-8"))["results"]
    assert list(stored) == [name for name in BENCHMARKS if name in stored]
    for result in (Result(**row) for rows in stored.values() for row in rows):
        assert f"| {result.task} | {result.ours} |" in copy.read_text(encoding="utf-8")
        assert f"| {result.ratio:.2f} |" in copy.read_text(encoding="utf-8")
