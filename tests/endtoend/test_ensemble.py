"""Tests of the members of the ensemble of networks and of the message if they are missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from submission.__main__ import main as submission
from submission.fusion.regression import RegressionEnsemble
from submission.storage.checkpoint_directory import read_config
from submission.systems.catalogue import RERANKERS
from tests.endtoend.conftest import AssertFails, Capture


def test_ensemble_has_the_expected_eight_networks(all_checkpoints_dir: Path, capsys: Capture) -> None:
    ensemble = read_config(all_checkpoints_dir / "ensemble", RegressionEnsemble)
    assert [member.name for member in ensemble.members] == [*RERANKERS, "snrm"]
    assert all(member.minimum < member.maximum for member in ensemble.members)
    assert json.loads((all_checkpoints_dir / "ensemble" / "metrics.json").read_text())["pairs"] == 250
    assert submission(["systems", "--checkpoints", str(all_checkpoints_dir)]) == 0
    assert f"score = {ensemble.format_formula()}" in capsys.readouterr().out


def test_all_missing_networks_are_named(
    all_checkpoints_dir: Path, prepared_work_dir: Path, tmp_path: Path, assert_fails: AssertFails
) -> None:
    shutil.copytree(all_checkpoints_dir / "knrm", tmp_path / "some" / "knrm")
    missing = "no checkpoint of gru, drmm, conv_knrm, vanilla_bert, cedr_drmm, cedr_knrm, snrm;"
    assert_fails(4, missing, "fuse", "ensemble", "--work-dir", prepared_work_dir, "--checkpoints", tmp_path / "some")
