from __future__ import annotations

import re
from pathlib import Path

import torch

from submission.engine.base import CPU
from submission.paths import CHECKPOINT_DIR
from submission.search.cli import DEFAULT_LEXICAL_SYSTEM, choose_systems
from submission.systems.execution import CheckpointStore

GPU = torch.device("cuda")


def choose_system_names(names: list[str], device: torch.device, checkpoints: Path = CHECKPOINT_DIR) -> tuple[list[str], str]:
    systems, message = choose_systems(names, CheckpointStore(checkpoints), device)
    return [system.name for system in systems], message


def test_named_systems_are_selected_once() -> None:
    assert choose_system_names(["bm25", "gru", "bm25"], CPU) == (["bm25", "gru"], "")


def test_default_is_fusion_if_it_is_fast(tmp_path: Path) -> None:
    assert choose_system_names([], GPU) == (["fusion"], "Using fusion (default). Choose another with --system NAME.")
    names, message = choose_system_names([], CPU)
    assert (names, "fusion takes seconds per query without a GPU." in message) == ([DEFAULT_LEXICAL_SYSTEM], True)
    names, message = choose_system_names([], GPU, tmp_path)
    assert (names, "GPU" in message) == ([DEFAULT_LEXICAL_SYSTEM], False)
    assert re.search(r"best lexical system: fusion: checkpoint \w+.* not found\. Choose another with --system NAME", message)
