"""Tests that invalid flags lead to a one-line usage error before any input is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.harness import Program

DIGITS = "7" * 60
INVALID: dict[str, tuple[tuple[str, ...], str]] = {
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
    "no cache": (("rank", "--cache-dir", ""), "expected a non-empty path"),
    "no earlier run": (("rank", "--input-run", ""), "expected a non-empty path"),
    "no checkpoints": (("rank", "--checkpoints", ""), "expected a non-empty path"),
    "NUL in a path": (("rank", "-o", "a\0b"), "expected a non-empty path"),
    "no run to check": (("check", "--run", ""), "expected a non-empty path"),
    "a shared cache without Ray": (("rank", "--shared-cache", "--cache-dir", "w"), "add them, or omit --shared-cache"),
    "a shared cache without a directory": (("rank", "--shared-cache", "--engine", "ray"), "add them, or omit --shared-cache"),
    "a Ray address without Ray": (("rank", "--ray-address", "host:1"), "--ray-address requires --engine ray"),
    "a Ray address without a port": (("rank", "--ray-address", "ray://host"), "expected HOST:PORT"),
    "another engine": (("rank", "--engine", "ray://host:1"), "invalid choice: 'ray://host:1'"),
    "another device": (("rank", "--device", "tpu"), "invalid choice: 'tpu'"),
    "no team": (("rank", "--team", ""), "choose another --team"),
    "a team with a blank": (("rank", "--team", "a b"), "choose another --team"),
    "a team with a slash": (("rank", "--team", "../a"), "choose another --team"),
    "a team of other letters": (("rank", "--team", "é"), "choose another --team"),
    "a team with an end of line": (("rank", "--team", "a\n"), "choose another --team"),
    "a team too long for a file": (("rank", "--team", "a" * 300), "choose another --team"),
    "explain: a mistyped system": (
        ("explain", "-i", "/nowhere", "--system", "KNRM", "--qid", "1", "--docno", "a1"),
        "did you mean 'knrm'?",
    ),
    "explain: no document": (("explain", "--system", "knrm", "--qid", "1"), "--docno"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_flags_are_usage_errors(program: Program, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flags, message = INVALID[name]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, text = program.call(*flags)
    assert code == 2, text
    assert message in text
    assert "\x1b" not in text
    assert "nowhere" not in text  # flags are checked before any input is read
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("qid", "docno", "message"), [("9", "a1", "topic '9'"), ("1", "zz", "zz"), ("", "a1", "topic "), ("1", "", "document ")]
)
def test_explain_rejects_an_unknown_topic_or_document(program: Program, qid: str, docno: str, message: str) -> None:
    flags = ["--checkpoints", str(program.checkpoints), "--system", "knrm", "--qid", qid, "--docno", docno]
    code, text = program.call("explain", "-i", str(program.input), *flags)
    assert code == 2, text
    assert message in text


def test_relative_paths_and_empty_environment_variables(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(program.input.parent)
    for output in ("o1", "./o2", "../" + program.input.parent.name + "/o3"):
        flags = ["-i", "input", "-o", output, "--cache-dir", "w", "--checkpoints", "checkpoints", "--device", "cpu"]
        code, text = program.call("rank", *flags, "--system", "bm25", "--system", "knrm")
        assert code == 0, text
    assert Path("o1/run.txt").read_bytes() == Path("o2/run.txt").read_bytes() == Path("o3/run.txt").read_bytes() != b""
    for name in ("inputDataset", "outputDir", "inputRun", "TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR"):
        monkeypatch.setenv(name, "")
    code, text = program.call("rank", "-i", "input", "--checkpoints", "checkpoints", "--system", "bm25")
    assert code == 0, text
    assert (Path("runs") / "run.txt").exists()


@pytest.mark.parametrize("verb", ["rank", "check", "explain", "systems"])
def test_help_states_a_default_once(program: Program, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    code, text = program.call(verb, "--help")
    assert code == 0
    assert max(line.count("(default") for line in text.splitlines()) == 1
    assert "None" not in text
    assert "[]" not in text
    assert "130 and 143" in text
    assert "7 training" not in text


def test_old_flags_are_accepted(program: Program, tmp_path: Path) -> None:
    code, text = program.rank("--work", str(tmp_path / "cache"))
    assert code == 0, text
    flags = ["--checkpoints", str(program.checkpoints), "--system", "knrm", "--topic", "1", "--document", "a1"]
    assert program.call("explain", "-i", str(program.input), *flags)[0] == 0
    assert program.check("--differing", str(tmp_path / "ids"))[0] == 0
    assert (tmp_path / "ids").exists()
