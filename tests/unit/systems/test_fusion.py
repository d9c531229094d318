from __future__ import annotations

from submission.systems.fusion import describe_mismatch

FITTED = {"knrm": {"knrm": "k1"}, "gru": {"gru": "g1"}}


def test_describe_mismatch_names_members_and_checkpoints() -> None:
    assert describe_mismatch(FITTED, FITTED) == ""
    assert describe_mismatch(FITTED, {**FITTED, "gru": {"gru": "g2"}}) == "fitted with other checkpoints of gru"
    current = {"snrm": {"snrm": "k1"}, "gru": {"gru": "g1"}}
    assert describe_mismatch(FITTED, current) == "fitted with the members gru, knrm, but the system has gru, snrm"
