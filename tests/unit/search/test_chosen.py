from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from submission.engine.engine import CPU
from submission.paths import CHECKPOINTS
from submission.search.chosen import BY_WORDS, chosen
from submission.systems.catalogue import SYSTEMS
from submission.systems.lexical import Lexical
from submission.systems.remembered import Checkpoints
from training.measuring.evaluate import HEADLINES
from training.measuring.results import JUDGED
from training.paths import MEASURED

GPU = torch.device("cuda")


def names(asked: list[str], device: torch.device, checkpoints: Path = CHECKPOINTS) -> list[str]:
    return [system.name for system in chosen(asked, Checkpoints(checkpoints), device)[0]]


def test_those_that_are_named_each_once() -> None:
    assert names(["bm25", "gru", "bm25"], CPU) == ["bm25", "gru"]
    assert chosen(["bm25"], Checkpoints(CHECKPOINTS), CPU)[1] == ""


def test_the_primary_one_where_it_is_quick(tmp_path: Path) -> None:
    assert names([], GPU) == ["fusion"]
    assert names([], CPU) == [BY_WORDS]
    assert names([], GPU, tmp_path) == [BY_WORDS]  # its checkpoints are not there


def test_by_words_the_best_by_the_headline_measure() -> None:
    rows = pd.read_csv(MEASURED)
    means = rows[(rows["measure"] == HEADLINES[0]) & (rows["over"] == JUDGED)].set_index("run")["mean"]
    by_words = [
        name for name, system in SYSTEMS.items() if isinstance(system.stage, Lexical) and system.stage.enrichment is None
    ]
    assert max(by_words, key=lambda name: means[f"aragorn-{name}"]) == BY_WORDS
