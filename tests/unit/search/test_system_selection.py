from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import torch

from submission.engine.base import CPU
from submission.paths import CHECKPOINT_DIR
from submission.search.cli import DEFAULT_LEXICAL_SYSTEM, choose_systems
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import CheckpointStore
from submission.systems.lexical import LexicalStage
from training.evaluation.evaluate import HEADLINE_MEASURES
from training.evaluation.tables import ALL_TOPICS
from training.paths import SYSTEM_MEANS

GPU = torch.device("cuda")


def choose_names(names: list[str], device: torch.device, checkpoints: Path = CHECKPOINT_DIR) -> tuple[list[str], str]:
    systems, message = choose_systems(names, CheckpointStore(checkpoints), device)
    return [system.name for system in systems], message


def test_named_systems_are_selected_once() -> None:
    assert choose_names(["bm25", "gru", "bm25"], CPU) == (["bm25", "gru"], "")


def test_default_is_fusion_if_it_is_fast(tmp_path: Path) -> None:
    assert choose_names([], GPU) == (["fusion"], "Using fusion (default). Choose another with --system NAME.")
    names, message = choose_names([], CPU)
    assert (names, "fusion takes seconds per query without a GPU." in message) == ([DEFAULT_LEXICAL_SYSTEM], True)
    names, message = choose_names([], GPU, tmp_path)
    assert (names, "GPU" in message) == ([DEFAULT_LEXICAL_SYSTEM], False)
    assert re.search(r"best lexical system: fusion: checkpoint \w+.* not found\. Choose another with --system NAME", message)


def test_default_lexical_system_is_best_by_headline_measure() -> None:
    rows = pd.read_csv(SYSTEM_MEANS)
    means = rows[(rows["measure"] == HEADLINE_MEASURES[0]) & (rows["topic_set"] == ALL_TOPICS)].set_index("run")["mean"]
    names = [
        name for name, system in SYSTEMS.items() if isinstance(system.stage, LexicalStage) and system.stage.enrichment is None
    ]
    assert max(names, key=lambda name: means[f"aragorn-{name}"]) == DEFAULT_LEXICAL_SYSTEM
