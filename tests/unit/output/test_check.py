from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.output.faults import run_faults
from tests.conftest import argument

GOOD = ["1 Q0 a1 1 3.5 me-knrm", "1 Q0 a2 2 -1.25 me-knrm", "2 Q0 a1 1 2.0 me-knrm", "3 Q0 a3 1 2 me-knrm",
        "3 Q0 a2 2 1.0 me-knrm"]  # fmt: skip
TOPICS, CORPUS = ["1", "2", "3"], {"a1", "a2", "a3"}


def faults(tmp_path: Path, lines: list[str]) -> list[str]:
    (tmp_path / "run.txt").write_text("".join(f"{line}\n" for line in lines))
    return [fault.removeprefix(f"{tmp_path / 'run.txt'}") for fault in run_faults(tmp_path / "run.txt", TOPICS, CORPUS)]


def test_a_good_run_has_none(tmp_path: Path) -> None:
    assert faults(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("number", "line", "words"),
    [
        (1, "1 Q0 a1 1 nan me-knrm", "score nan; expected a number"),
        (1, "1 Q0 a1 1 1e-3 me-knrm", "score 1e-3; expected a number"),
        (2, "1 Q0 a2 2 3.5 me-knrm", "score 3.5 after 3.5; expected strictly falling"),
        (2, "1 Q0 a2 3 1.0 me-knrm", "rank 3; expected 2"),
        (2, "1 Q0 a1 2 1.0 me-knrm", "document a1 occurs again in topic 1"),
        (2, "1 Q0 a9 2 1.0 me-knrm", "document a9 is not in the input"),
        (1, "1 0 a1 1 3.5 me-knrm", "'0' in the second field"),
        (3, "9 Q0 a1 1 3.5 me-knrm", "topic 9 is not in the input"),
        (5, "1 Q0 a3 3 -2.0 me-knrm", "topic 1 goes on after another one"),
        (4, "3 Q0 a3 1 2.0 other", "tag 'other'; expected one tag"),
        (1, "1 Q0 a1 1 3.5", "5 fields"),
        (1, "1  Q0 a1 1 3.5 me-knrm", "single blanks"),
    ],
)
def test_faults_of_a_line(tmp_path: Path, number: int, line: str, words: str) -> None:
    found = faults(tmp_path, [*GOOD[: number - 1], line, *GOOD[number:]])
    assert any(fault.startswith(f", line {number}: ") and words in fault for fault in found), found


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, ["2 Q0 a9 2 nan me-knrm", "1 Q0 a1 1 1.0 me knrm"])
    assert len(found) == 5  # unknown document, rank, score; fields; too few lines and topics
    found = faults(tmp_path, [GOOD[2], *GOOD[:2], *GOOD[3:]])
    assert found == [": topics in another order than the input's"]


def test_more_than_1000_documents(tmp_path: Path) -> None:
    lines = [f"1 Q0 d{rank} {rank} {2000 - rank} x" for rank in range(1, 1002)]
    (tmp_path / "run.txt").write_text("\n".join([*lines, "2 Q0 a 1 1 x", "3 Q0 a 1 1 x"]))
    assert run_faults(tmp_path / "run.txt", None, None) == [f"{tmp_path / 'run.txt'}: 1001 documents in topic 1; "
                                                            "expected at most 1000"]  # fmt: skip


def test_what_is_right_is_said(
    make_input: Callable[..., Path], checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make_input([("1", "Are zoos cruel?"), ("2", "Is golf a sport?"), ("3", "Should taxes rise?")])
    place = ["-i", str(directory), "--checkpoints", str(checkpoints)]
    assert main(["rank", *place, "-o", str(tmp_path / "out"), "--device", "cpu"]) == 0
    runs = [flag for name in ("bm25", "knrm") for flag in ("--run", str(tmp_path / "out" / f"aragorn-{name}.txt"))]
    assert main(["check", *place, *runs]) == 3  # 4 documents are too few for TIRA
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["note", "ok", "note", "ok", "note", "ok", "FAULT", "FAULT"]
    assert "checkpoint knrm" in out
    assert out.count("4 lines, 3 topics; TIRA expects") == 2


def test_all_faults_of_an_input(make_input: Callable[..., Path], checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = argument("a3")
    del broken["conclusion"]
    arguments = [argument("a1"), argument("a1", "Something else"), argument("a b"), broken, {**argument("a4"), "premises": 3}]
    directory = make_input([("", "no number"), ("2", ""), ("3", "x"), ("3", "y")], arguments)
    (directory / "idebate.json").write_text(json.dumps({"arguments": arguments[:3]}))
    assert main(["check", "-i", str(directory), "--checkpoints", str(checkpoints)]) == 3
    out, err = capsys.readouterr()
    for words in ("without a number", "topic 2 has no title", "topic 3 occurs again", "argument number 4 (id a3): ",
                  "argument number 5 (id a4): ", "argument a1 occurs 2 times", "argument number 3: id 'a b'"):  # fmt: skip
        assert words in out
    assert "error: 7 faults, listed above" in err


def test_checkpoints_are_probed(make_input: Callable[..., Path], checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkpoints / "ensemble").mkdir()
    (checkpoints / "knrm" / "vocabulary.txt").write_text("other\n")
    assert main(["check", "-i", str(make_input()), "--checkpoints", str(checkpoints)]) == 4
    out = capsys.readouterr().out
    assert "vocabulary.txt: damaged" in out
    assert "ensemble: missing config.json, provenance.json;" in out


def test_texts_that_are_not_the_judged_ones(
    make_input: Callable[..., Path], checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make_input(None, [argument("S1-A1"), argument("S2-A2")])
    command = ["check", "-i", str(directory), "--checkpoints", str(checkpoints), "--differing", str(tmp_path / "ids")]
    assert main(command) == 0
    assert (
        "2 of 2 texts are not those that their ids were made of, so not the judged ones: S1-A1, S2-A2"
        in capsys.readouterr().out
    )
    assert (tmp_path / "ids").read_text() == "S1-A1\nS2-A2\n"
