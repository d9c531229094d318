"""Tests of the benchmarks on small inputs."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from tests.benchmarks import (
    encoders,
    indexes,
    inference_engines,
    rank,
    reading,
    scaling,
    search,
    training,
    word_networks,
)
from tests.benchmarks.__main__ import BENCHMARKS, README, update_readme
from tests.benchmarks.benchmark import Benchmark, Result, compare, compare_with_target
from tests.benchmarks.synthetic_inputs import write_full_size
from tests.conftest import SAMPLE, Capture, count_colours

SMALL: dict[str, Callable[[Path], Sequence[Benchmark | Result]]] = {
    "cedr_knrm": lambda _: [encoders.build_bert_benchmark("cedr_knrm", SAMPLE, 0.9, max_pairs=6)],
    "sbert": lambda _: [encoders.build_sbert_benchmark(SAMPLE, max_premises=3)],
    "deepct": lambda _: [encoders.build_deepct_benchmark(SAMPLE, max_documents=3)],
    "bfloat16": lambda _: encoders.build_bfloat16_benchmarks(
        SAMPLE, max_documents=3, max_premises=4
    ),
    "inference_engines": lambda _: inference_engines.build_benchmarks(
        SAMPLE, max_pairs=4, max_premises=3, max_documents=2
    ),
    "knrm": lambda _: [word_networks.build_benchmark("knrm", SAMPLE, 5)],
    "knrm_training": lambda _: [training.build_benchmark("knrm", 2, 5, vocabulary_size=300)],
    "targer": lambda _: [encoders.build_tagging_benchmark(SAMPLE, max_premises=3)],
    "bm25": lambda _: [indexes.build_bm25_benchmark(SAMPLE)],
    "term_index": lambda work: indexes.measure_term_index(SAMPLE, work),
    "read_runs": lambda _: [reading.measure_run(1)],
    "memory": lambda work: [
        compare_with_target("", rank.rank(SAMPLE, work, None, ["bm25"]).peak, 9, "GB")
    ],
    "search": lambda work: search.measure_search(SAMPLE, work, 0.3, 1, 2),
    "corpus": lambda work: reading.measure_corpus(
        write_full_size(SAMPLE, work / "full", 1200), work, 1
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # warnings of the baselines
@pytest.mark.parametrize("name", SMALL)
def test_both_sides_are_measured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    for item in SMALL[name](tmp_path):
        result = compare(item, 1) if isinstance(item, Benchmark) else item
        assert result.ratio > 0
        assert f"ratio {result.ratio:.2f}" in result.format()


@pytest.mark.slow
def test_scaling_is_plotted(tmp_path: Path, capsys: Capture) -> None:
    scaling.plot(SAMPLE, SAMPLE, tmp_path / "scaling.png", ["knrm"])
    assert "arguments in the corpus: hashes" in capsys.readouterr().out
    assert count_colours((tmp_path / "scaling.png").read_bytes()) > 100


def test_unequal_scores_raise() -> None:
    word_networks.check_equal(torch.tensor([1.0, 200.0]), torch.tensor([1.0, 200.001]), 1e-5)
    with pytest.raises(AssertionError, match="scores differ from the baseline"):
        word_networks.check_equal(torch.tensor([1.5, 2.0]), torch.tensor([1.0, 2.0]), 1e-5)


def test_readme_table_matches_results(tmp_path: Path) -> None:
    results = README.with_name("results.json")
    stored = json.loads(results.read_text(encoding="utf-8"))["results"]
    assert list(stored) == [name for name in BENCHMARKS if name in stored]
    copy = Path(shutil.copy(README, tmp_path))
    update_readme(results, copy)
    assert copy.read_text(encoding="utf-8") == README.read_text(encoding="utf-8")
