"""The command line of training: verbs, kinds and conflicting arguments."""

from __future__ import annotations

import pytest

from training.__main__ import main

KINDS = {"prepare": ["pairs", "passages", "lists", "tags", "distilled", "vectors"], "study": [
    "enrichments", "lengths", "augmented-sbert", "students", "argument-quality"
]}  # fmt: skip
VERBS = ["fit", "reproduce", "tune", "fuse", "evaluate", "analyse", "report", "readme"]


def said(command: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == code
    return "".join(capsys.readouterr())


def test_all_verbs_and_kinds_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    whole = said(["--help"], 0, capsys)
    assert [verb for verb in (*VERBS, *KINDS) if f"    {verb} " not in whole and f"    {verb}\n" not in whole] == []
    for verb, kinds in KINDS.items():
        told = said([verb, "--help"], 0, capsys)
        assert [kind for kind in kinds if f"    {kind}" not in told] == []
    for kind in KINDS["prepare"]:  # a working directory is always --work
        told = said(["prepare", kind, "--help"], 0, capsys)
        assert "--work WORK" in told
        assert "-i " in told
    assert "invalid choice: 'nothing'" in said(["study", "nothing"], 2, capsys)


def test_judgments_are_for_a_learned_fusion_alone(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuse", "fusion", "--work", str(tmp_path)]) == 2
    assert "fuse fusion: a learned fusion is fitted to judgments; add --qrels" in capsys.readouterr().err
    assert main(["fuse", "ensemble", "--work", str(tmp_path), "--qrels", "qrels"]) == 2
    assert "fuse ensemble: an ensemble is fitted to the validation pairs in --work; remove --qrels" in capsys.readouterr().err
    assert main(["tune", "tfr_bert", "--qrels", "qrels"]) == 2
    assert "tune tfr_bert: expected exactly one --qrels, and --work prepared by `prepare lists`" in capsys.readouterr().err
