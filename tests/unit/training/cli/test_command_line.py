"""Tests of the training command line: subcommands, measures and conflicting arguments."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from training.__main__ import main
from training.cli import options, study
from training.data.datasets.sentence_pairs import LOADERS
from training.studies.argument_quality.protocol import SETTINGS
from training.tuning import grid

OLD_NAMES = (
    "prepare lists", "prepare distilled", "analyse", "readme", "prepare pairs --unrelated", "prepare vectors --written",
    "prepare passages --run", "prepare distilled --system", "fuse --positive", "fuse --tables", "tune --work",
    "study augmented-sbert --task", "study argument-quality --seeds",
)  # fmt: skip
QRELS = ["-i", "in", "--qrels", "qrels"]


def run_until_exit(command: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must exit with `code` while parsing arguments; return its output and errors."""
    with pytest.raises(SystemExit) as exit_info:
        main(command)
    assert exit_info.value.code == code
    return "".join(capsys.readouterr())


@pytest.mark.parametrize("old", OLD_NAMES)
def test_old_names_are_accepted_but_not_shown(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, _, flag = old.partition(" --")
    text = run_until_exit([*command.split(), "--help"], 0, capsys)
    if flag:
        assert f"--{flag} " not in text
        assert f"unrecognized arguments: --{flag}" not in run_until_exit([*command.split(), f"--{flag}"], 2, capsys)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["fuse", "fusion", "--work-dir", "work"], "add -i and --qrels"),
        (["fuse", "ensemble", "--work-dir", "work", "--qrels", "qrels"], "remove --qrels"),
        (["tune", "tfr_bert", *QRELS], "no --work-dir; add the directory prepared by `prepare quality`"),
        (["tune", "tfr_bert", *QRELS, "--qrels", "b=b"], "2 qrels files; pass exactly one --qrels"),
        (["tune", "dirichlet", *QRELS], "no output directory; add -o DIR or --work-dir WORK_DIR"),
    ],
)
def test_missing_inputs_are_named(
    command: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_choices_equal_those_of_lazily_imported_modules() -> None:
    assert (*LOADERS,) == study.SBERT_PARTS
    assert (*SETTINGS,) == study.QUALITY_PARTS
    assert {*options.SELECTION_MEASURES.values()} == {*grid.SELECTION_MEASURES}


def test_measures_have_two_names() -> None:
    assert options.parse_measure("nDCG@5-touche") == options.parse_measure("nDCG@5 (Touché)") == "nDCG@5 (Touché)"
    with pytest.raises(argparse.ArgumentTypeError, match="expected one of nDCG@5, "):
        options.parse_measure("nDCG@6")
