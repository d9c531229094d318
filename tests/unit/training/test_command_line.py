"""The command line of training: what is there, and what earlier forms say."""

from __future__ import annotations

import pytest

from training.__main__ import RENAMED, main

KINDS = {"prepare": ["pairs", "passages", "lists", "tags", "distilled", "vectors"], "study": [
    "enrichments", "lengths", "augmented-sbert", "students", "argument-quality"
]}  # fmt: skip
VERBS = ["fit", "reproduce", "tune", "fuse", "evaluate", "analyse", "report", "readme"]


def said(command: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == code
    return "".join(capsys.readouterr())


@pytest.mark.parametrize("form", RENAMED)
def test_an_earlier_form_says_the_new_one_which_is_there(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{form} has another form: `python -m training {RENAMED[form]}`" in said([form, "WORK", "-x"], 2, capsys)
    verb, name, *_ = RENAMED[form].split()
    assert f"usage: training {verb}" in said([verb, *([name] if verb in KINDS else []), "--help"], 0, capsys)


@pytest.mark.parametrize("flag", ["-i", "--input", "-o", "--output"])
def test_prepare_without_a_kind_says_the_new_form(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "`python -m training prepare pairs -i INPUT --work WORK`" in said(["prepare", flag, "x", "-o", "y"], 2, capsys)


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
    assert "fuse fusion: expected --qrels, the judgments that a learned fusion is fitted to" in capsys.readouterr().err
    assert main(["fuse", "ensemble", "--work", str(tmp_path), "--qrels", "qrels"]) == 2
    assert "fuse ensemble: is fitted to the validation pairs in --work, and takes no --qrels" in capsys.readouterr().err
    assert main(["tune", "tfr_bert", "--qrels", "qrels"]) == 2
    assert "tune tfr_bert: expected one --qrels, and --work with what `prepare lists` wrote" in capsys.readouterr().err
