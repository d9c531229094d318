"""Tests of the benchmarks on small inputs."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from tests.benchmarks import word_networks
from tests.benchmarks.__main__ import BENCHMARKS, README, update_readme


def test_unequal_scores_raise():
    word_networks.check_equal(torch.tensor([1.0, 200.0]), torch.tensor([1.0, 200.001]), 1e-5)
    with pytest.raises(AssertionError, match="scores differ from the baseline"):
        word_networks.check_equal(torch.tensor([1.5, 2.0]), torch.tensor([1.0, 2.0]), 1e-5)


def test_readme_table_matches_results(tmp_path):
    results = README.with_name("results.json")
    stored = json.loads(results.read_text(encoding="utf-8"))["results"]
    assert list(stored) == [name for name in BENCHMARKS if name in stored]
    copy = Path(shutil.copy(README, tmp_path))
    update_readme(results, copy)
    assert copy.read_text(encoding="utf-8") == README.read_text(encoding="utf-8")
