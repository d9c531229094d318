"""Tests of the ensemble of networks: its members and scores, the overlap of the runs, and tokens that networks share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from tira.check_format import check_format

from submission.__main__ import main as submission
from submission.data.runs import read_run
from submission.fusion.regression import RegressionEnsemble
from submission.inference.ranker_checkpoint import PROBE_PAIRS, UNICODE_PROBE_PAIRS
from submission.storage.checkpoint_directory import read_config
from submission.systems.catalogue import ENSEMBLE_MEMBERS, RERANKERS, SYSTEMS
from submission.text.tokenisers import WordTokeniser
from tests.conftest import read_files
from tests.endtoend.conftest import AssertFails, Capture, RankAll
from training.__main__ import main as training


def test_ensemble_has_the_expected_eight_networks(all_checkpoints_dir: Path, capsys: Capture) -> None:
    ensemble = read_config(all_checkpoints_dir / "ensemble", RegressionEnsemble)
    assert [member.name for member in ensemble.members] == [*RERANKERS, "snrm"]
    assert all(member.minimum < member.maximum for member in ensemble.members)
    assert json.loads((all_checkpoints_dir / "ensemble" / "metrics.json").read_text())["pairs"] == 250
    assert submission(["systems", "--checkpoints", str(all_checkpoints_dir)]) == 0
    assert f"score = {ensemble.format_formula()}" in capsys.readouterr().out


def test_scores_are_weighted_sums_of_clipped_members(rank_all: RankAll, all_checkpoints_dir: Path, tmp_path: Path) -> None:
    names = (*ENSEMBLE_MEMBERS, "ensemble")
    assert rank_all("out", *(flag for name in names for flag in ("--system", name))) == 0
    ensemble = read_config(all_checkpoints_dir / "ensemble", RegressionEnsemble)
    runs = {name: read_run(tmp_path / "out" / f"aragorn-{name}.txt") for name in names}
    expected: dict[tuple[str, str], float] = {}
    for member in ensemble.members:
        for row in runs[member.name].itertuples():
            scaled = min(1, max(0, (row.score - member.minimum) / (member.maximum - member.minimum)))
            expected.setdefault((row.qid, row.docno), ensemble.intercept)
            expected[row.qid, row.docno] += member.coefficient * scaled
    assert set(runs["ensemble"]["qid"]) == {"1", "2", "3"}
    for row in runs["ensemble"].itertuples():
        assert row.score == pytest.approx(expected[row.qid, row.docno], abs=1e-5)


@pytest.mark.slow
def test_all_runs_are_valid_distinct_and_compared(rank_all: RankAll, tmp_path: Path, capsys: Capture) -> None:
    assert rank_all() == 0
    out = tmp_path / "out"
    for name in SYSTEMS:
        (tmp_path / name).mkdir()
        shutil.copy(out / f"aragorn-{name}.txt", tmp_path / name / "run.txt")
        [message] = [message for message in check_format(tmp_path / name, "run.txt") if isinstance(message, str)]
        assert "correct format" in message
    assert len({(out / f"aragorn-{name}.txt").read_text().replace(name, "") for name in SYSTEMS}) == len(SYSTEMS)
    assert training(["overlap", str(out)]) == 0
    tables = {"jaccard.csv", "jaccard.png", "spearman.csv", "spearman.png", "spearman-topics.csv"}
    assert set(read_files(out / "analysis")) == tables
    jaccard = pd.read_csv(out / "analysis" / "jaccard.csv", index_col=0)
    assert sorted(jaccard.index) == sorted(SYSTEMS)
    assert (jaccard.to_numpy().diagonal() == 1).all()
    assert "spearman-topics" in capsys.readouterr().out


def test_all_missing_networks_are_named(
    all_checkpoints_dir: Path, prepared_work_dir: Path, tmp_path: Path, assert_fails: AssertFails
) -> None:
    shutil.copytree(all_checkpoints_dir / "knrm", tmp_path / "some" / "knrm")
    missing = "no checkpoint of gru, drmm, conv_knrm, vanilla_bert, cedr_drmm, cedr_knrm, snrm;"
    assert_fails(4, missing, "fuse", "ensemble", "--work-dir", prepared_work_dir, "--checkpoints", tmp_path / "some")


def test_texts_are_tokenised_once(rank_all: RankAll, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    tokenise = WordTokeniser.tokenise_premise
    monkeypatch.setattr(WordTokeniser, "tokenise_premise", lambda self, text: texts.append(text) or tokenise(self, text))
    flags = [flag for name in ("gru", "knrm", "drmm", "conv_knrm") for flag in ("--system", name)]
    assert rank_all("out", *flags) == 0
    probes = PROBE_PAIRS + UNICODE_PROBE_PAIRS  # tokenised once for each of the four checkpoints
    assert len(texts) - 4 * len(probes) == len(set(texts)) - len(probes)
