"""Tests of the `check` command: all issues of a run, an input and the checkpoints are reported."""

import gzip
import json
import math
import re
from pathlib import Path

import pytest
from tira.check_format import _fmt, check_format

from aragorn.__main__ import main
from aragorn.errors import InputError
from aragorn.io.run_rules import ACCEPTED, STRICTER, TIRA_ERROR, find_run_issues, summarise_issues
from aragorn.io.runs import read_run
from tests.conftest import PREMISE, argv, format_run_lines, make_argument

VALID_LINES = ["1 Q0 a1 1 3.5 me-knrm", "1 Q0 a2 2 -1.25 me-knrm", "2 Q0 a1 1 2.0 me-knrm", "3 Q0 a3 1 2 me-knrm",
        "3 Q0 a2 2 1.0 me-knrm"]  # fmt: skip
EXTRA_LINE = ["3 Q0 a1 3 0.5 me-knrm"]  # TIRA requires at least five lines
TOPICS = ["1", "2", "3"]
CORPUS = {"a1", "a2", "a3"}


def find_issues(tmp_path, lines):
    (tmp_path / "run.txt").write_text("".join(f"{line}\n" for line in lines))
    return find_run_issues(tmp_path / "run.txt", TOPICS, CORPUS)


def test_valid_run_has_no_issues(tmp_path):
    assert find_issues(tmp_path, VALID_LINES) == []
    (tmp_path / "run.txt.gz").write_bytes(gzip.compress((tmp_path / "run.txt").read_bytes()))
    assert find_run_issues(tmp_path / "run.txt.gz", TOPICS, CORPUS) == []
    [issue] = find_run_issues(tmp_path, TOPICS, CORPUS)
    message = f"{tmp_path}: contains run.txt and run.txt.gz; delete one"
    assert (issue.level, issue.message) == (TIRA_ERROR, message)
    with pytest.raises(InputError, match=message):
        read_run(tmp_path)


@pytest.mark.parametrize(("level", "line_number", "line", "message"), [
    (STRICTER, 1, "1 Q0 a1 1 nan me-knrm", "invalid score 'nan'; expected a finite number"),
    (STRICTER, 1, "1 Q0 a1 1 1e-3 me-knrm", "score 1e-3; expected decimal notation"),
    (STRICTER, 2, "1 Q0 a2 2 3.5 me-knrm", "score 3.5; expected less than 3.5"),
    (STRICTER, 2, "1 Q0 a2 3 1.0 me-knrm", "rank 3; expected 2"),
    (TIRA_ERROR, 2, "1 Q0 a2 2.0 1.0 me-knrm", "rank 2.0; expected an integer"),
    (TIRA_ERROR, 2, "1 Q0 a1 2 1.0 me-knrm", "duplicate document a1 in topic 1 (first in line 1)"),
    (STRICTER, 2, "1 Q0 a9 2 1.0 me-knrm", "document a9; check the corpus version"),
    (STRICTER, 1, "1 0 a1 1 3.5 me-knrm", "'0'; expected Q0"), (STRICTER, 3, "9 Q0 a1 1 3.5 me-knrm", "topic 9"),
    (STRICTER, 5, "1 Q0 a3 3 -2.0 me-knrm", "topic 1 is not contiguous"),
    (STRICTER, 4, "3 Q0 a3 1 2.0 other", "tag 'other'; expected the same tag"),
    (TIRA_ERROR, 1, "1 Q0 a1 1 3.5", "5 fields; expected 6"),
    (TIRA_ERROR, 1, "# a comment", "'# a comment'; delete it before submitting"),
    (STRICTER, 1, "1\tQ0\ta1\t1\t3.5\tme-knrm", "expected one space between fields"),
    (TIRA_ERROR, 1, "1 Q0 a\u00a01 1 3.5 me-knrm", "ids must be non-empty, without whitespace or invisible characters"),
])  # fmt: skip
def test_issues_of_a_line_are_reported(tmp_path, level, line_number, line, message):
    lines = [*VALID_LINES[: line_number - 1], line, *VALID_LINES[line_number:], *EXTRA_LINE]
    issues = find_issues(tmp_path, lines)
    assert any(
        (issue.level, issue.line) == (level, line_number) and message in issue.message
        for issue in issues
    ), issues
    # TIRA's checker agrees on which issues are errors.
    assert (check_format(tmp_path, "run.txt")[0] == _fmt.ERROR) == any(
        issue.level == TIRA_ERROR for issue in issues
    ), issues


@pytest.mark.parametrize(("lines", "expected"), [
    (
        ["2 Q0 a9 2 nan me-knrm", "1 Q0 a1 1 1.0 me knrm"],
        [
            (TIRA_ERROR, "wrong number of fields"), (TIRA_ERROR, "too few lines"), (TIRA_ERROR, "too few topics"),
            (STRICTER, "non-finite score"), (STRICTER, "unknown document"), (STRICTER, "ranks not consecutive from 1"),
            (ACCEPTED, "topics without documents"),
        ],
    ),
    ([VALID_LINES[2], *VALID_LINES[:2], *VALID_LINES[3:]], [(STRICTER, "topics not in input order")]),
    (
        [line.replace(" Q0", ".1 Q0", 1) for line in VALID_LINES],
        [*[(STRICTER, "unknown topic")] * 3, (ACCEPTED, "topics without documents")],
    ),
], ids=["errors first", "topics in another order", "topic numbers with a suffix"])  # fmt: skip
def test_issues_of_a_run_are_reported(tmp_path, lines, expected):
    assert [(issue.level, issue.category) for issue in find_issues(tmp_path, lines)] == expected


def number_lines(*ranks):
    """Return a run in which the documents of each topic, by score, have these ranks."""
    return [
        f"{qid} Q0 a{row} {rank} {5 - row} t" for qid in TOPICS for row, rank in enumerate(ranks, 1)
    ]


@pytest.mark.parametrize(("lines", "summary"), [
    (number_lines(0, 1, 2), "ranks not consecutive from 1 in 3 topics: line 1: rank 0; expected 1"),
    (number_lines(7, 7, 7), "ranks not consecutive from 1 in 3 topics: line 1: rank 7; expected 1"),
    ([f"{line[0]}{line}" for line in number_lines(1, 2, 3)], "unknown topic in 3 topics: line 1: topic 11 is not in the"),
    ([line for row in range(3) for line in number_lines(1, 2, 3)[row::3]], "topic not contiguous in 3 topics: line 4"),
    (number_lines(3, 2, 1), "set --order rank or --order score for `rank --input-run`, `evaluate` or `compare`"),
    ([line for row in range(3) for line in number_lines(1, 3, 2)[row::3]], "ranks and scores disagree in 3 of 3"),
    (number_lines(1, 2, 3)[3:6], "2 of 3 topics are not in the run (1, 3); evaluators count them as 0 or skip them"),
])  # fmt: skip
def test_issues_of_topics_are_counted(tmp_path, lines, summary):
    summaries = summarise_issues(tmp_path, find_issues(tmp_path, lines))
    assert any(summary in line for line in summaries), summaries


def test_more_than_1000_documents_per_topic_are_reported(tmp_path):
    lines = [f"1 Q0 d{rank} {rank} {2000 - rank} x\n" for rank in range(1, 1002)]
    (tmp_path / "run.txt").write_text("".join([*lines, "2 Q0 a 1 1 x\n", "3 Q0 a 1 1 x\n"]))
    actual = [issue.category for issue in find_run_issues(tmp_path / "run.txt", None, None)]
    assert actual == ["too many documents"]


def test_each_check_is_reported_in_order(make_input, checkpoints, tmp_path, capsys, caplog):
    path_flags = ["-i", str(make_input()), "--checkpoints", str(checkpoints)]
    assert main(["rank", *path_flags, "-o", str(tmp_path / "out"), "--device", "cpu"]) == 0
    files = [tmp_path / "out" / f"aragorn-{name}.txt" for name in ("bm25", "knrm")]
    runs = [flag for file in files for flag in ("--run", str(file))]
    Path(runs[1]).write_text(Path(runs[1]).read_text().replace("Q0", "0"))
    assert main(["check", *path_flags, *runs]) == 3  # the runs are too small for TIRA
    out, err = capsys.readouterr()
    expected = "NOTE OK " * 3 + "NOTE NOTE NOTE ERROR ERROR ERROR NOTE ERROR ERROR"
    assert " ".join(line.split()[0] for line in out.splitlines()) == expected
    assert re.search(
        "NOTE   systems without all checkpoints, which `rank` omits: .*gru, .*, fusion", out
    )
    assert re.search("systems omitted, as checkpoints are missing: .*gru, .*, fusion", caplog.text)
    assert re.search("checkpoint knrm [0-9a-f]{12}\n", out)
    assert "error: 7 errors; see 5 ERROR lines above" in err
    message = "5 of 6 arguments in the collection; the others have premises of fewer than 15 words"
    assert f"NOTE   {message}" in out
    assert out.count("rejected by TIRA: too few lines: ") == 2
    assert f"NOTE   {runs[1]}: edited since `rank` wrote it" in out
    assert out.count("edited since") == 1
    (checkpoints / "knrm" / "probe.json").write_text("[]")
    assert main(["check", *path_flags, *runs]) == 4  # the exit code of the first error


def test_stricter_rules_are_notes_with_tira_only(make_input, tmp_path, capsys):
    directory = make_input([(qid, "zoos") for qid in "123"], [*map(make_argument, ("a1", "a2"))])
    run = tmp_path / "run.txt"
    run.write_text(format_run_lines(dict.fromkeys("123", ("a1", "a2"))).replace("Q0", "0"))
    command = ["check", "-i", str(directory), "--no-checkpoints", "--run", str(run)]
    message = f"{run}: stricter than TIRA: second field is not Q0 in 6 lines"
    assert main(command) == 3
    assert f"ERROR  {message}" in capsys.readouterr().out
    assert main([*command, "--tira-only"]) == 0
    out = capsys.readouterr().out
    assert f"NOTE   {message}" in out
    assert out.endswith(f"OK     {run}\n")
    run.write_text("".join(run.read_text().splitlines(keepends=True)[:4]))  # rejected by TIRA
    assert main([*command, "--tira-only"]) == 3
    out = capsys.readouterr().out
    assert f"NOTE   {run}: 2 TIRA errors, by category:\n" in out
    assert out.count("ERROR") == 2


INVALID = [make_argument("a1"), make_argument("a1", "Other"), make_argument("a b"), {"id": "a3", "premises": []},
          {**make_argument("a4"), "premises": 3}]  # fmt: skip
VALID = {"conclusion": "Zoos", "id": "a", "argument": PREMISE}
LINES = {"id": "x"}, VALID, {}, {**VALID, "conclusion": math.nan}


@pytest.mark.parametrize(("topics", "files", "expected"), [
    (
        [("", "no number"), ("2", ""), ("3", "x"), ("3", "y")],
        {"args-me.json": json.dumps({"arguments": INVALID}), "idebate.json": json.dumps({"arguments": INVALID[:3]})},
        ["topic has no number", "me.json, argument 3 (id a b): invalid id 'a b'", "idebate.json, argument 3 (id a b): inv"],
    ),
    (
        [("1", "zoos")], {"args-me.json": '{"arguments": []}', "args-me.jsonl": "\n".join(map(json.dumps, LINES))},
        ["jsonl, line 1 (id x): Object missing required field `conclusion`"],
    ),
], ids=["ids and fields", "lines"])  # fmt: skip
def test_the_first_error_of_each_file_is_reported(
    topics, files, expected,
    make_input, capsys
):  # fmt: skip
    directory = make_input(topics)
    for name, content in files.items():
        (directory / name).write_text(content)
    assert main(["check", "-i", str(directory), "--no-checkpoints"]) == 3
    out, err = capsys.readouterr()
    errors = [line for line in out.splitlines() if line.startswith("ERROR")]
    assert len(errors) == len(expected), errors
    assert all(message in line for message, line in zip(expected, errors, strict=True)), errors
    assert f"error: {len(errors)} error" in err


def test_notes_are_no_errors(make_input, tmp_path, capsys):
    arguments = [make_argument("S1-A1"), make_argument("S2-A2")]
    directory = make_input([(qid, "zoos") for qid in "1234"], arguments)
    run = tmp_path / "run.txt"  # has no line for topic 4
    run.write_text(format_run_lines(dict.fromkeys("123", ("S1-A1", "S2-A2"))))
    flags = argv(
        "-i", directory, "--no-checkpoints --mismatched-ids", tmp_path / "ids", "--run", run
    )
    assert main(["check", *flags]) == 0
    message = f"NOTE   {run}: accepted by TIRA: topics without documents: 1 of 4"
    assert message in capsys.readouterr().out
    # texts that are not those of their ids
    assert (tmp_path / "ids").read_text().splitlines()[1:] == ["S1-A1", "S2-A2"]
    (tmp_path / "ids").write_text("S1-A1\n")  # a list of the user
    assert main(["check", *flags]) == 5
    assert (tmp_path / "ids").read_text() == "S1-A1\n"


@pytest.mark.parametrize("kind", ["missing", "loop", "file", "empty"])
def test_unusable_checkpoint_directory_is_an_error(kind, make_input, tmp_path, capsys):
    directory = tmp_path / kind
    if kind == "loop":
        directory.symlink_to(directory)
    elif kind == "file":
        directory.touch()
    elif kind == "empty":
        directory.mkdir()
    command = argv("check -i", make_input(), "--checkpoints", directory)
    assert main(command) == 4
    out = capsys.readouterr().out
    cause = "a file; use" if kind == "file" else "no checkpoint found; pass"
    assert re.search(rf"^OK     2 topics\n(.*\n)+ERROR  {directory}.*: {cause}", out, re.M), out
