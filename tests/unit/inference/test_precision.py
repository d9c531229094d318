"""Encoder precision: chosen by flag, device and CPU, and carried by a pickled checkpoint."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

from submission.errors import UsageError
from submission.inference.device import choose_precision
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.padding import pad
from submission.paths import CHECKPOINT_DIR
from submission.systems.execution import CheckpointStore

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize("feature", ["avx512_bf16", "amx_bf16"])
def test_bfloat16_on_supported_processors(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, feature: True})
    assert choose_precision("bfloat16", CPU) is torch.bfloat16
    assert choose_precision("float32", CPU) is None


def test_unsupported_bfloat16_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "amx_bf16": False})
    with pytest.raises(UsageError, match="this CPU has no bfloat16 instructions"):
        choose_precision("bfloat16", CPU)
    with pytest.raises(UsageError, match="a GPU always uses float16"):
        choose_precision("bfloat16", GPU)
    assert choose_precision("float32", GPU) is None


def test_precision_is_pickled_with_the_checkpoint() -> None:
    checkpoints = CheckpointStore(CHECKPOINT_DIR, torch.bfloat16)
    opened = checkpoints.load_network("sbert", load_checkpoint)
    again = pickle.loads(pickle.dumps(opened))
    for checkpoint in opened, again:
        assert checkpoint.get_network(CPU).encoder.precision is torch.bfloat16
    assert again.fingerprint == load_checkpoint(Path(CHECKPOINT_DIR, "sbert")).fingerprint
    plain = CheckpointStore(CHECKPOINT_DIR).load_network("sbert", load_checkpoint)
    assert pickle.loads(pickle.dumps(plain)).get_network(CPU).encoder.precision is None


@pytest.mark.parametrize("longest", [5, 63, 64, 65, 96, 100])
@torch.inference_mode()
def test_half_precision_is_close_for_all_lengths(longest: int) -> None:
    encoder = load_checkpoint(CHECKPOINT_DIR / "sbert").network.encoder.eval()
    ids, mask = pad([list(range(1000, 1000 + length)) for length in (longest, longest, 3)])
    expected, inside = encoder(ids, mask)
    encoder.set_precision(torch.bfloat16)
    actual, also_inside = encoder(ids, mask)
    assert (actual.dtype, actual.shape) == (torch.float32, expected.shape)
    torch.testing.assert_close(also_inside, inside)
    assert 0 < (actual - expected)[inside].abs().max() < 0.1  # of values up to 3
    alone, _ = encoder(*pad([list(range(1000, 1000 + longest))]))
    torch.testing.assert_close(actual[0], alone[0], rtol=0, atol=0.05)
    encoder.set_precision(None)
    assert torch.equal(encoder(ids, mask)[0], expected)
