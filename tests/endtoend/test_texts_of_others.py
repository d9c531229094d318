"""Tests that no control character of a corpus, topic or name reaches a terminal or a page."""

import json
import re

import pytest

from aragorn.__main__ import main as aragorn
from aragorn_training.__main__ import main as training
from tests.conftest import make_argument

CONTROLS = "\x1b[31m \x07\x08 \u202e\u2066 \x9b31m \u2028 \x85 \r"
PREMISE = f"zoos should be abolished because animals suffer {CONTROLS} in cages and children learn nothing"


@pytest.fixture(scope="module")
def hostile_input(tmp_path_factory):
    """Directory with texts that have control characters, runs of two systems and judgments."""
    directory = tmp_path_factory.mktemp("input")
    conclusion = f"Zoos {CONTROLS} should be abolished"
    arguments = [make_argument(name, conclusion, PREMISE) for name in ("a1", "a2", "a3")]
    (directory / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    title = "Should zoos \u202e\u2066\x85 be abolished?"
    (directory / "topics.xml").write_text(
        f"<topics><topic><number>1</number><title>{title}</title></topic></topics>"
    )
    (directory / "qrels").write_text("1 0 a1 2\n1 0 a2 0\n")
    return directory


def check_text(text):
    assert text
    assert {character for character in text if not character.isprintable()} <= {"\n"}


@pytest.mark.parametrize("docnos", [["a1"], ["a1", "a2"]])
@pytest.mark.parametrize("system", ["bm25", "knrm"])
def test_explanations_show_no_control_character(system, docnos, hostile_input, capsys):
    command = ["explain", "-i", str(hostile_input), "--system", system, "--qid", "1"]
    command += [f"--docno={docno}" for docno in docnos]
    assert aragorn(command) == 0
    output = capsys.readouterr().out
    check_text(output)
    assert "Zoos \ufffd[31m" in output


def test_report_shows_no_control_character(hostile_input, tmp_path):
    runs = str(tmp_path / "runs")
    flags = ["-i", str(hostile_input)]
    assert aragorn(["rank", *flags, "-o", runs, "--system", "bm25", "--system", "knrm"]) == 0
    page = tmp_path / "report.html"
    command = ["report", runs, "--qrels", str(hostile_input / "qrels"), *flags, "-o", str(page)]
    assert training(command) == 0
    html = page.read_text(encoding="utf-8")
    text = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)  # the library of the charts
    check_text(text)
    assert "\ufffd[31m" in text
