"""Odd flags: a usage error in one line, or the obvious meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.harness import Program

DIGITS = "7" * 60
BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "no verb": ((), "the following arguments are required: VERB"),
    "another verb": (("ranks",), "invalid choice: 'ranks'"),
    "another flag": (("rank", "--sytem", "knrm"), "unrecognized arguments"),
    "a flag without a value": (("rank", "--system"), "expected one argument"),
    "capital letters": (("rank", "--system", "KNRM"), "did you mean 'knrm'?"),
    "a hyphen": (("rank", "--system", "conv-knrm"), "did you mean 'conv_knrm'?"),
    "capital letters and hyphens": (("rank", "--system", "CEDR-DRMM"), "did you mean 'cedr_drmm'?"),
    "a mistyped system": (("rank", "--system", "vanila_bert"), "did you mean 'vanilla_bert'?"),
    "no system": (("rank", "--system", ""), "Valid: bm25"),
    "a long system": (("rank", "--system", "x" * 100_000), "Valid: bm25"),
    "a system of controls": (("rank", "--system", "\x1b[2J"), "Valid: bm25"),
    "depth 0": (("rank", "--depth", "0"), "expected an integer from 1 to 1000"),
    "depth 1001": (("rank", "--depth", "1001"), "expected an integer from 1 to 1000"),
    "depth -1": (("rank", "--depth=-1"), "expected an integer from 1 to 1000"),
    "depth of 60 digits": (("rank", "--depth", DIGITS), "expected an integer from 1 to 1000"),
    "depth of 6000 digits": (("rank", "--depth", DIGITS * 100), "expected an integer from 1 to 1000"),
    "depth 10.0": (("rank", "--depth", "10.0"), "expected an integer from 1 to 1000"),
    "depth ²": (("rank", "--depth", "²"), "expected an integer from 1 to 1000"),
    "no depth": (("rank", "--depth", ""), "expected an integer from 1 to 1000"),
    "no input": (("rank", "-i", ""), "expected a non-empty path"),
    "a blank input": (("rank", "-i", " "), "expected a non-empty path"),
    "no output": (("rank", "-o", ""), "expected a non-empty path"),
    "no work": (("rank", "--work", ""), "expected a non-empty path"),
    "no earlier run": (("rank", "--input-run", ""), "expected a non-empty path"),
    "no checkpoints": (("rank", "--checkpoints", ""), "expected a non-empty path"),
    "NUL in a path": (("rank", "-o", "a\0b"), "expected a non-empty path"),
    "no run to check": (("check", "--run", ""), "expected a non-empty path"),
    "a shared directory for nobody": (("rank", "--shared-work", "--work", "w"), "give all three"),
    "a shared directory that is none": (("rank", "--shared-work", "--engine", "ray"), "give all three"),
    "another device": (("rank", "--device", "tpu"), "invalid choice: 'tpu'"),
    "no team": (("rank", "--team", ""), "choose another --team"),
    "a team with a blank": (("rank", "--team", "a b"), "choose another --team"),
    "a team with a slash": (("rank", "--team", "../a"), "choose another --team"),
    "a team of other letters": (("rank", "--team", "é"), "choose another --team"),
    "a team with an end of line": (("rank", "--team", "a\n"), "choose another --team"),
    "a team too long for a file": (("rank", "--team", "a" * 300), "choose another --team"),
    "explain: a mistyped system": (
        ("explain", "-i", "/nowhere", "--system", "KNRM", "--topic", "1", "--document", "a1"),
        "did you mean 'knrm'?",
    ),
    "explain: no document": (("explain", "--system", "knrm", "--topic", "1"), "--document"),
}


@pytest.mark.parametrize("name", BAD)
def test_flags_are_refused(program: Program, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flags, words = BAD[name]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, said = program.call(*flags)
    assert code == 2, said
    assert words in said
    assert "\x1b" not in said
    assert "nowhere" not in said  # flags are checked before any input is read
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("topic", "document", "words"), [("9", "a1", "topic '9'"), ("1", "zz", "zz"), ("", "a1", "topic "), ("1", "", "document ")]
)
def test_explain_of_what_is_not_there(program: Program, topic: str, document: str, words: str) -> None:
    flags = ["--checkpoints", str(program.checkpoints), "--system", "knrm", "--topic", topic, "--document", document]
    code, said = program.call("explain", "-i", str(program.input), *flags)
    assert code == 2, said
    assert words in said


def test_paths_that_are_relative_and_empty_variables_that_are_none(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(program.input.parent)
    for output in ("o1", "./o2", "../" + program.input.parent.name + "/o3"):
        flags = ["-i", "input", "-o", output, "--work", "w", "--checkpoints", "checkpoints", "--device", "cpu"]
        code, said = program.call("rank", *flags, "--system", "bm25", "--system", "knrm")
        assert code == 0, said
    assert Path("o1/run.txt").read_bytes() == Path("o2/run.txt").read_bytes() == Path("o3/run.txt").read_bytes() != b""
    for name in ("inputDataset", "outputDir", "inputRun", "TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR"):
        monkeypatch.setenv(name, "")
    code, said = program.call("rank", "-i", "input", "--checkpoints", "checkpoints", "--system", "bm25")
    assert code == 0, said
    assert (Path("runs") / "run.txt").exists()


@pytest.mark.parametrize("verb", ["rank", "check", "explain", "systems"])
def test_help_says_a_default_once(program: Program, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    code, said = program.call(verb, "--help")
    assert code == 0
    assert max(line.count("(default") for line in said.splitlines()) == 1
    assert "None" not in said
    assert "[]" not in said
