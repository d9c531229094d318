"""Tests that a message is one line and shows no control character of a name or text of others."""

import logging
import sys
from io import StringIO

import pytest

from aragorn.__main__ import main as aragorn
from aragorn.errors import MAX_MESSAGE_LENGTH, escape_unprintable, format_message
from aragorn.progress import configure_logging
from aragorn_training.__main__ import main as training

FORGED = "x\nerror: forged\r\x1b[31m\x07\x85\u2028\u202e\x9b"
ESCAPED = r"x\nerror: forged\r\x1b[31m\x07\x85\u2028\u202e\x9b"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (FORGED, ESCAPED),
        ("M\xfcller\n\u0645", "M\xfcller\\n\u0645"),  # printable characters stay
        ("M\udcfcller", r"M\udcfcller"),
        ("plain 'text'", "plain 'text'"),
    ],
)
def test_unprintable_characters_are_escaped(text, escaped):
    assert escape_unprintable(text) == escaped


COMMANDS = {
    aragorn: [
        ["rank", "-i", FORGED, "-o", "out"],
        ["rank", "-o", "out", "--system", FORGED],
        ["rank", "-o", "out", f"--{FORGED}"],
        ["search", "--system", "bm25", "-i", FORGED, "zoos"],
        ["explain", "--system", "bm25", "1", FORGED],
        ["check", "-i", FORGED, "--no-checkpoints"],
        [FORGED],
    ],
    training: [
        ["fit", FORGED],
        ["tune", f"{FORGED}.toml"],
        ["evaluate", "--qrels", FORGED, "run.txt"],
        ["report", FORGED],
        [FORGED],
    ],
}


@pytest.mark.parametrize(
    ("main", "command"), [(main, words) for main in COMMANDS for words in COMMANDS[main]]
)
def test_names_forge_no_message(main, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(command)
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    lines = (captured.out + captured.err).split("\n")
    assert all(line.isprintable() for line in lines), captured
    assert not any(line.startswith("error: forged") for line in lines)
    assert code in (2, 3, 4)
    assert sum("error: " in line for line in captured.err.split("\n")) <= 1


def test_a_logged_message_is_one_line(monkeypatch):
    stream = StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure_logging()
    logging.getLogger().warning("%s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger().exception("failed")
    lines = stream.getvalue().split("\n")
    assert lines[0].endswith(f" {ESCAPED}")
    assert lines[1].endswith(" failed")
    assert lines[2].startswith("Traceback")
    assert all(line.isprintable() for line in lines)


def test_a_long_message_keeps_its_cause_and_its_fix():
    message = f"file: malformed ({'x' * 10**5}\n); correct it"
    line = format_message(message)
    assert (line[:17], line[-16:]) == ("file: malformed (", r"x\n); correct it"[-16:])
    assert len(line) == MAX_MESSAGE_LENGTH + 3
    assert format_message("a\x1b\nb") == r"a\x1b\nb"
