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

KINDS = {"prepare": ["pairs", "passages", "quality", "tags", "distillation", "vectors", "encoder"], "study": [
    "enrichments", "lengths", "augmented-sbert", "students", "argument-quality"
]}  # fmt: skip
COMMANDS = ["fit", "reproduce", "tune", "fuse", "evaluate", "overlap", "report", "docs"]


def run_until_exit(command: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that exits with a code while parsing arguments; return its output."""
    with pytest.raises(SystemExit) as exit_info:
        main(command)
    assert exit_info.value.code == code
    return "".join(capsys.readouterr())


def test_help_lists_all_subcommands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = run_until_exit(["--help"], 0, capsys)
    assert "usage: python -m training " in text
    assert "7 training failed" in text
    assert [command for command in (*COMMANDS, *KINDS) if f"    {command} " not in text] == []
    for command, kinds in KINDS.items():
        text = run_until_exit([command, "--help"], 0, capsys)
        assert [kind for kind in kinds if f"    {kind}" not in text] == []
    for kind in KINDS["prepare"]:
        assert "--work-dir WORK_DIR" in run_until_exit(["prepare", kind, "--help"], 0, capsys)
    assert "(default: 0)" in run_until_exit(["prepare", "vectors", "--help"], 0, capsys)
    assert "invalid choice: 'nothing'" in run_until_exit(["study", "nothing"], 2, capsys)


@pytest.mark.parametrize(
    "alias",
    [
        "prepare lists", "prepare distilled", "prepare pairs --unrelated", "prepare vectors --written",
        "prepare passages --run", "prepare distilled --system", "fuse --positive", "fuse --tables", "tune --work",
        "study augmented-sbert --task", "study argument-quality --seeds", "analyse", "readme",
    ],
)  # fmt: skip
def test_old_names_are_accepted_but_not_shown(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    *command, name = alias.split()
    if not name.startswith("--"):
        command.append(name)
    text = run_until_exit([*command, "--help"], 0, capsys)
    if name.startswith("--"):
        assert f"{name} " not in text
        assert f"unrecognized arguments: {name}" not in run_until_exit([*command, name], 2, capsys)


def test_fuse_and_tune_report_missing_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = ["--work-dir", str(tmp_path)]
    for command, message in (
        (["fuse", "fusion", *work], "fuse fusion: a learned fusion is fitted to judgments; add -i and --qrels"),
        (["fuse", "ensemble", *work, "--qrels", "qrels"], "fitted to the validation pairs in --work-dir; remove --qrels"),
        (
            ["tune", "tfr_bert", "-i", "in", "--qrels", "qrels"],
            "exactly one --qrels, and --work-dir prepared by `prepare quality`",
        ),
        (["tune", "dirichlet", "-i", "in", "--qrels", "qrels"], "no output directory; add -o DIR or --work-dir WORK_DIR"),
    ):
        assert main(command) == 2
        assert message in capsys.readouterr().err
    assert "required: -i/--input" in run_until_exit(["tune", "dirichlet", "--qrels", "qrels"], 2, capsys)


def test_output_defaults_to_the_work_directory(tmp_path: Path) -> None:
    args = argparse.Namespace(output=None, work_dir=tmp_path)
    assert options.output_path(args, "checkpoints", "fusion") == tmp_path / "checkpoints/fusion"
    assert options.result_file(args, "lengths.csv") == tmp_path / "results/lengths.csv"
    assert (tmp_path / "results").is_dir()


def test_measures_have_the_names_of_ir_measures() -> None:
    assert {*options.SELECTION_MEASURES.values()} == {*grid.SELECTION_MEASURES}
    for name, column in options.SELECTION_MEASURES.items():
        assert options.selection_measure(name) == options.selection_measure(column) == column
    with pytest.raises(argparse.ArgumentTypeError, match="expected one of nDCG@5, "):
        options.selection_measure("nDCG@6")


def test_part_choices_equal_those_of_the_studies() -> None:
    assert (*LOADERS,) == study.SBERT_PARTS
    assert (*SETTINGS,) == study.QUALITY_PARTS
