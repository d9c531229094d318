"""Tests that unusual inputs lead to a valid run, and malformed ones to the same error from the `rank` and `check` commands."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.conftest import PREMISE, ROOT, make_argument
from tests.robustness.harness import ARGUMENTS, DEEP, TOPICS, Damage, Program, write, write_input

MANY_DIGITS = "7" * 6000
CORPUS = json.dumps({"arguments": ARGUMENTS})
BYTES = CORPUS.encode()
COMPRESSED = gzip.compress(BYTES)
BOMB = gzip.compress(b"\0" * (1 << 28), 9)
CONTROLS = {
    "NUL": "\\u0000", "escape": "\\u001b[31m", "delete": "\\u007f", "C1": "\\u009b2J", "line": "\\u2028", "mark": "\\u202e",
}  # fmt: skip
LINKS = {"broken link": "nowhere", "device": "/dev/zero"}


def replace_file(original: str, text: str | bytes, name: str) -> Damage:
    """Return a function that replaces a file with another one."""

    def damage(program: Program) -> None:
        (program.input / original).unlink()
        write(program.input / name, text)

    return damage


def topics(text: str | bytes, name: str = "topics.xml") -> Damage:
    return replace_file("topics.xml", text, name)


def topic(qid: str, title: str) -> str:
    return f"<topics><topic><number>{qid}</number><title>{title}</title></topic></topics>"


def corpus(text: str | bytes, name: str = "args-me.json") -> Damage:
    return replace_file("args-me.json", text, name)


def arguments(*added: dict[str, Any] | str) -> Damage:
    """Return a function that adds arguments, given as objects or as JSON, to the corpus."""
    texts = [item if isinstance(item, str) else json.dumps(item) for item in [*ARGUMENTS, *added]]
    return corpus('{"arguments": [' + ",".join(texts) + "]}")


def argument_with(**fields: Any) -> dict[str, Any]:
    return {**make_argument("x"), **fields}


def special(name: str, kind: str) -> Damage:
    """Return a function that replaces a file with a directory, FIFO, device or broken link."""

    def damage(program: Program) -> None:
        file = program.input / name
        file.unlink(missing_ok=True)
        if kind in LINKS:
            file.symlink_to(LINKS[kind])
        else:
            (os.mkfifo if kind == "FIFO" else Path.mkdir)(file)

    return damage


def tirex(**files: str | bytes) -> Damage:
    """Return a function that writes a TIREx data set; in the names, _ stands for a dot."""

    def damage(program: Program) -> None:
        shutil.rmtree(program.input)
        program.input.mkdir()
        for name, text in files.items():
            write(program.input / name.replace("_", "."), text)

    return damage


def documents(text: str | bytes) -> Damage:
    """Return a function that writes a TIREx data set with the given documents."""
    return tirex(queries_jsonl=QUERIES, documents_jsonl=text)


def queries(text: str | bytes) -> Damage:
    """Return a function that writes a TIREx data set with the given queries."""
    return tirex(queries_jsonl=text, documents_jsonl=DOCUMENTS)


JSONL_LINES = [
    json.dumps({"id": f"h{n}", "conclusion": text, "stance": "PRO", "argument": PREMISE})
    for n, text in enumerate(("zoos", "golf", "ox"))
]
SIX = "expected 6: `qid Q0 docno rank score tag`"
LONG = " ".join(f"word{index}" for index in range(20))
QUERIES = '{"qid": "1", "query": "zoos"}\n{"qid": "2", "query": "golf"}\n'
DOCUMENTS = "".join(
    json.dumps({"docno": f"d{n}", "text": f"{word} {LONG}"}) + "\n" for n, word in enumerate(("zoos", "golf", "tax"))
)


def rerank_line(**fields: str) -> str:
    row = {"qid": '"1"', "query": '"zoos"', "docno": '"d0"', "text": f'"{LONG}"', "rank": "1", "score": "1.5", **fields}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in row.items()) + "}\n"


def input_run(text: str | bytes, name: str = "run.txt") -> Damage:
    """Return a function that writes a run to re-rank and returns the flags that select it."""

    def damage(program: Program) -> list[str]:
        directory = program.input.parent / "earlier"
        directory.mkdir()
        write(directory / name, text)
        return ["--input-run", str(directory)]

    return damage


def scored(*values: str) -> Damage:
    return input_run("".join(f"1 Q0 a{n} {n} {value} x\n" for n, value in enumerate(values, 1)))


VALID: dict[str, Damage] = {  # unusual but valid
    "unchanged": lambda program: None,
    "topics with a BOM": topics(b"\xef\xbb\xbf" + TOPICS.encode()),
    "topics in UTF-16": topics(f'<?xml version="1.0" encoding="UTF-16"?>{TOPICS}'.encode("utf-16")),
    "topics of another name": topics(TOPICS, "topics-task-1.xml"),
    "a title of digits": topics(topic("1", MANY_DIGITS)),
    "a long title": topics(topic("1", "zoos " * 20_000)),
    "a title of marks": topics(topic("1", "?!… 😀")),
    "a title with an unknown word": topics(topic("1", "quux " + "q" * 100_000)),
    "a number of 60 digits": topics(topic("7" * 60, "zoos")),
    "a number that is no number": topics(topic("q-1.a", "zoos")),
    "a number of other digits": topics(topic("\u0661", "zoos") + ""),
    "corpus with a BOM": corpus(b"\xef\xbb\xbf" + BYTES),
    "corpus in gzip": corpus(COMPRESSED, "args-me.json.gz"),
    "one conclusion": corpus(json.dumps({"arguments": [make_argument("a1"), make_argument("a2")]})),
    "two conclusions": corpus(json.dumps({"arguments": [make_argument("a1"), make_argument("a2", "golf")]})),
    "two conclusions that share a word": corpus(
        json.dumps({"arguments": [make_argument("a1"), make_argument("a2", "zoos are fun")]})
    ),
    "a word in half of the conclusions": corpus(
        json.dumps({"arguments": [make_argument(f"a{n}", text) for n, text in enumerate(("zoos", "zoos b", "golf", "golf b"))]})
    ),
    "a premise of digits": arguments(argument_with(premises=[{"text": f"{MANY_DIGITS} " * 20}])),
    "a premise of one word": arguments(argument_with(premises=[{"text": "x" * 300_000}])),
    "no premises": arguments(argument_with(premises=[])),
    "an empty conclusion": arguments(argument_with(conclusion="")),
    "characters that cannot be seen in a premise": arguments(argument_with(premises=[{"text": "\0\x1b[2J " * 30}])),
    "many digits in an unused field": arguments('{"id":"x","conclusion":"c","premises":[],"n":' + MANY_DIGITS + "}"),
    "an id that is long": arguments(argument_with(id="i" * 5000)),
    "an id of other letters": arguments(argument_with(id="идентификатор-é😀")),
    "TIREx": documents(DOCUMENTS),
    "TIREx with BOMs and blank lines": tirex(
        queries_jsonl=b"\xef\xbb\xbf" + QUERIES.encode() + b"\n \n",
        documents_jsonl=b"\xef\xbb\xbf\n" + DOCUMENTS.encode() + b"\n\n",
    ),
    "TIREx in gzip": tirex(
        queries_jsonl_gz=gzip.compress(QUERIES.encode()), documents_jsonl_gz=gzip.compress(DOCUMENTS.encode())
    ),
    "TIREx with CRLF": tirex(queries_jsonl=QUERIES.replace("\n", "\r\n"), documents_jsonl=DOCUMENTS.replace("\n", "\r\n")),
    "TIREx with an escape in the query": queries('{"qid": 1, "query": "zoos \\u001b[2J"}\n'),
    "TIREx with short texts": documents('{"docno": 0, "text": "zoos"}\n{"docno": 1, "text": ""}\n{"docno": 2, "text": "ox"}\n'),
    "a list without ranks and scores": tirex(rerank_jsonl='{"qid": 1, "query": "zoos", "docno": "d", "text": "zoos"}\n'),
    "a list": tirex(rerank_jsonl=rerank_line()),
    "a list of a short document": tirex(rerank_jsonl=rerank_line(text='"Zoos are cruel."')),
    "a list of a score of 1e300": tirex(rerank_jsonl=rerank_line(score="1e300")),
    "a list of a score of 7": tirex(rerank_jsonl=rerank_line(score="7")),
    "a run": input_run("1 Q0 a1 1 3.5 x\n1 Q0 a2 2 2.5 x\n"),
    "a run with a BOM and blank lines": input_run(b"\xef\xbb\xbf\n1 Q0 a1 1 3.5 x\n\n"),
    "a run of tied scores": scored("1", "1", "1", "1"),
    "a run of the lowest scores": scored("-3.4e38", "-3.4028235e38", "-3.4028235e38", "-3.4028235e38"),
    "a run of the highest scores": scored("3.4028235e38", "3.4028235e38", "3.4028235e38"),
    "a run of scores beyond float32": scored("1e300", "1e39", "-1e39", "-1e300", "-1e308"),
    "a run of small scores": scored("1e-300", "1e-310", "0", "-0", "-1e-320"),
}  # fmt: skip

INVALID: dict[str, tuple[Damage, str]] = {
    "no topics": (lambda program: (program.input / "topics.xml").unlink(), "no topics found"),
    "no corpus": (lambda program: (program.input / "args-me.json").unlink(), "no corpus found"),
    "no directory": (lambda program: shutil.rmtree(program.input), "input directory not found"),
    "a file for a directory": (lambda program: (shutil.rmtree(program.input), program.input.write_text("")), "cannot be read"),
    "topics: empty": (topics(""), "malformed XML"),
    "topics: no XML": (topics("1 zoos"), "malformed XML"),
    "topics: cut": (topics(TOPICS[:50]), "malformed XML"),
    "topics: NUL": (topics(TOPICS.replace("zoos", "\0")), "malformed XML"),
    "topics: not UTF-8": (topics(TOPICS.encode().replace(b"zoos", b"\xff")), "malformed XML"),
    "topics: of an unknown encoding": (topics(b'<?xml version="1.0" encoding="nonsense"?><topics/>'), "malformed XML"),
    "topics: no number": (topics("<topics><topic><title>a</title></topic></topics>"), "topic without number"),
    "topics: a mark in the number": (topics(topic("1&#x202E;", "a")), "without whitespace or invisible characters"),
    "topics: C1 in the number": (topics(topic("1&#x9b;", "a")), "'1\\x9b'"),
    "topics: no title": (topics("<topics><topic><number>1</number></topic></topics>"), "has no title"),
    "topics: a bomb": (
        topics('<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>' + topic("1", "&b;")),
        "document type",
    ),
    "topics: deep": (topics("<a>" * 5000 + "</a>" * 5000), "malformed XML"),
    "topics: a FIFO": (special("topics.xml", "FIFO"), "a FIFO; expected a regular file"),
    "topics: a device": (special("topics.xml", "device"), "a device; expected a regular file"),
    "topics: a directory": (special("topics.xml", "directory"), "a directory; expected a regular file"),
    "topics: a broken link": (special("topics.xml", "broken link"), "cannot be read"),
    "corpus: empty": (corpus(""), "malformed JSON"),
    "corpus: no JSON": (corpus("zoos"), "malformed JSON"),
    "corpus: not UTF-8": (corpus(BYTES.replace(b"Zoos", b"\xff")), "invalid UTF-8"),
    "corpus: null": (corpus("null"), 'expected {"arguments"'),
    "corpus: no arguments": (corpus("{}"), "arguments"),
    "corpus: arguments that are no list": (corpus('{"arguments": {}}'), "array"),
    "corpus: nothing in it": (corpus('{"arguments": []}'), "no usable argument among 0"),
    "corpus: no conclusions": (corpus(json.dumps({"arguments": [argument_with(conclusion=" ")]})), "no usable argument"),
    "corpus: a number as id": (arguments(argument_with(id=7)), "argument 6"),
    "corpus: an id of many digits": (arguments('{"id":' + MANY_DIGITS + ',"conclusion":"c","premises":[]}'), "argument 6"),
    **{
        f"corpus: {name} in an id": (arguments(f'{{"id":"x{text}","conclusion":"c","premises":[]}}'), "invalid id 'x")
        for name, text in CONTROLS.items()
    },
    "corpus: an id of another text": (arguments(make_argument("a1", "Something else")), "a1 occurs 2 times"),
    "corpus: premises that are no list": (arguments(argument_with(premises="x")), "(id x)"),
    "corpus: an argument that is a list": (arguments("[]"), "argument 6"),
    "corpus: a word in the place of a text": (arguments('{"id":"x","conclusion":none}'), "argument 6, line 1"),
    "corpus: one object named as lines": (corpus(CORPUS, "args-me.jsonl"), "args-me.jsonl, line 1"),
    "corpus: a mark in a line's id": (
        corpus(JSONL_LINES[0].replace("h0", "h\\u202e"), "args-me.jsonl"), "line 1: invalid id 'h"
    ),
    "corpus: deep in an unused field": (arguments('{"id":"x","more":' + DEEP), "malformed JSON"),
    "corpus: deep behind a wrong id": (arguments('{"id":3,"more":' + DEEP), "malformed JSON"),
    "corpus: no gzip": (corpus("zoos", "args-me.json.gz"), "damaged gzip"),
    "corpus: gzip cut": (corpus(COMPRESSED[:-9], "args-me.json.gz"), "damaged gzip"),
    "corpus: gzip of another check": (corpus(COMPRESSED[:-8] + b"\0" * 8, "args-me.json.gz"), "damaged gzip"),
    "corpus: a bomb": (corpus(BOMB, "args-me.json.gz"), "decompression bomb"),
    "corpus: a FIFO": (special("debateorg.json", "FIFO"), "a FIFO; expected a regular file"),
    "corpus: a device": (special("debateorg.json", "device"), "a device; expected a regular file"),
    "corpus: a directory": (special("args-me.json", "directory"), "a directory; expected a regular file"),
    "corpus: a broken link": (special("idebate.json", "broken link"), "cannot be read"),
    "corpus: one of two files": (
        lambda program: (program.input / "idebate.json").write_text('{"arguments": [{"id"'), "idebate.json, argument 1",
    ),
    "TIREx: queries alone": (tirex(queries_jsonl=QUERIES), "no documents.jsonl or corpus.jsonl found"),
    "TIREx: documents alone": (tirex(documents_jsonl=DOCUMENTS), "no queries.jsonl found"),
    "TIREx: an empty file of queries": (queries(""), "no queries"),
    "TIREx: no JSON": (queries("zoos\n"), "line 1"),
    "TIREx: a line of numbers": (queries(QUERIES + "[1]\n"), "line 3"),
    "TIREx: a field is missing": (documents(DOCUMENTS + '{"docno": "x"}\n'), "line 4"),
    "TIREx: not UTF-8": (documents(DOCUMENTS.encode() + b'{"docno": "\xff"}\n'), "line 4"),
    "TIREx: deep": (queries('{"qid": ' + DEEP), "line 1"),
    "TIREx: a query of many digits as id": (queries('{"qid": ' + MANY_DIGITS + ', "query": "a"}\n'), "line 1"),
    "TIREx: a bomb": (
        tirex(queries_jsonl=QUERIES, documents_jsonl_gz=gzip.compress(b"\n" * (1 << 28), 9)), "decompression bomb"
    ),
    **{
        f"TIREx: {name} in an id": (documents(f'{{"docno": "x{text}", "text": "b"}}\n'), "docno is 'x")
        for name, text in CONTROLS.items()
    },
    "a list: empty": (tirex(rerank_jsonl=""), "no queries"),
    "a list: twice": (tirex(rerank_jsonl=rerank_line() * 2), "duplicate document d0 in topic 1"),
    "a list: of other topics": (
        tirex(rerank_jsonl=rerank_line(qid='"9"'), queries_jsonl=QUERIES, documents_jsonl=DOCUMENTS),
        "the only topic is not in the input (first: 9)",
    ),
    "a list: a FIFO": (lambda program: os.mkfifo(program.input / "rerank.jsonl"), "a FIFO"),
    "a run: empty": (input_run(""), "empty run"),
    "a run: blank": (input_run("\n \n"), "empty run"),
    "a run: five fields": (input_run("1 Q0 a1 1 3\n"), f"line 1: 5 fields; {SIX} (tag missing)"),
    "a run: eight fields": (input_run("1 Q0 a1 1 3 x y z\n"), f"line 1: 8 fields; {SIX}; remove 'y z' after the tag"),
    "a run: a document with blanks": (input_run("1 Q0 a b 1 3 x\n"), f"line 1: 7 fields; {SIX}; docno 'a b' contains spaces"),
    "a run: a rank of a half": (input_run("1 Q0 a1 1.5 3 x\n"), "line 1: invalid rank '1.5'; expected an integer"),
    "a run: a mark in an id": (input_run("1 Q0 a\u200b1 1 3 x\n"), "docno 'a\\\\u200b1'; ids must be non-empty"),
    "a run: a comma in a score": (scored("3,5"), "line 1: invalid score '3,5'; expected a finite number"),
    "a run: Python's own digits": (scored("1_0"), "line 1: invalid score '1_0'; expected a finite number"),
    "a run: other digits": (scored("\u0661"), "line 1: invalid score '\u0661'; expected a finite number"),
    "a run: a hard blank in a document": (input_run("1 Q0 a\u00a01 1 3 x\n"), "ids must be non-empty"),
    "a run: ranks against scores": (
        scored("1", "2"),
        "line 2: ranks and scores disagree in 1 of 1 topics; first in topic 1: a2 has rank 2 and score 2",
    ),
    "a run: only comments": (input_run("# a run\n# of nothing\n"), "empty run"),
    "a run: leading zeros": (input_run("01 Q0 a1 1 3 x\n"), "01 without leading zeros equals 1"),
    "a run: a rank in words": (input_run("1 Q0 a1 first 3 x\n"), "line 1: invalid rank 'first'; expected an integer"),
    "a run: a rank of other digits": (input_run("1 Q0 a1 ² 3 x\n"), "line 1: invalid rank '²'; expected an integer"),
    "a run: a rank of many digits": (input_run(f"1 Q0 a1 {MANY_DIGITS} 3 x\n"), "line 1: invalid rank '7777"),
    "a run: NaN": (scored("nan"), "line 1: invalid score 'nan'; expected a finite number"),
    "a run: infinity": (scored("inf"), "line 1: invalid score 'inf'; expected a finite number"),
    "a run: beyond float64": (scored("1e309"), "line 1: invalid score '1e309'; expected a finite number"),
    "a run: not UTF-8": (input_run(b"1 Q0 a\xff 1 3 x\n"), "not UTF-8"),
    "a run: no gzip": (input_run("zoos", "run.txt.gz"), "damaged gzip"),
    "a run: a bomb": (input_run(BOMB, "run.txt.gz"), "decompression bomb"),
    "a run: twice": (input_run("1 Q0 a1 1 3 x\n1 Q0 a1 2 2 x\n"), "duplicate document a1 in topic 1 (first in line 1)"),
    "a run: another topic": (input_run("9 Q0 a1 1 3 x\n"), "the only topic is not in the input (first: 9)"),
    "a run: another document": (input_run("1 Q0 zz 1 3 x\n"), "the only document is not in the input (first: zz)"),
    "a run: an escape in a document": (input_run("1 Q0 a\x1b[2J 1 3 x\n"), "docno 'a\\\\x1b[2J'; ids must be non-empty"),
    "a run: no run": (lambda program: ["--input-run", str(program.input)], "no run found"),
    "a run: nowhere": (lambda program: ["--input-run", str(program.input / "nowhere")], "no run found"),
    "a run: a FIFO": (lambda program: (os.mkfifo(program.input / "run.txt"), ["--input-run", str(program.input)])[1], "a FIFO"),
    "a run: a name that is too long": (lambda program: ["--input-run", "x" * 5000], "no run found"),
}  # fmt: skip


def flags_of(result: object) -> list[str]:
    """Return the flags that a damage function returned, if any."""
    return result if isinstance(result, list) else []


@pytest.mark.parametrize("name", VALID)
def test_unusual_inputs_are_ranked(program: Program, name: str) -> None:
    flags = flags_of(VALID[name](program))
    code, output = program.rank(*flags, systems=("bm25", "knrm", "dirichlet_rm3"))
    assert code == 0, output
    if not flags:
        assert program.check()[0] == 0
    runs = [(program.output / f"aragorn-{system}.txt").read_text() for system in ("bm25", "knrm", "dirichlet_rm3")]
    unknown = name in ("a title of digits", "a title of marks", "a title with an unknown word")
    assert [bool(run) for run in runs] == [not unknown] * 3, output
    assert "its ranking is empty" in output or not unknown
    assert max(len(line) for line in output.splitlines() if "WARNING" not in line) < 1500


@pytest.mark.parametrize("name", INVALID)
def test_rank_and_check_reject_invalid_inputs(program: Program, name: str) -> None:
    damage, message = INVALID[name]
    flags = flags_of(damage(program))
    for code, output in (program.rank(*flags), *([] if flags else [program.check()])):  # `check` has no option --input-run
        assert code == 3, output
        assert message in output, output
        assert "\x1b" not in output
    assert not program.output.exists() or not list(program.output.iterdir())


def test_scores_beyond_float32_keep_order(program: Program) -> None:
    flags = flags_of(scored("-1e300", "3.5", "1e300", "-3.4028235e38", "1e39")(program))
    assert program.rank(*flags, "--order", "score")[0] == 0
    lines = [line.split() for line in (program.output / "run.txt").read_text().splitlines()]
    assert [line[2] for line in lines] == ["a3", "a5", "a2", "a4", "a1"]
    assert lines[2][4] == "3.5"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Drop root privileges within the block."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="requires root privileges, which it drops")
@pytest.mark.parametrize("target", ["directory", "topics.xml", "args-me.json"])
def test_unreadable_files_are_rejected(program: Program, target: str) -> None:
    with TemporaryDirectory() as directory:  # only their owner may access pytest's directories
        Path(directory).chmod(0o777)
        program.input, program.output = Path(directory) / "input", Path(directory) / "out"
        program.checkpoints = Path(shutil.copytree(program.checkpoints, Path(directory) / "checkpoints"))
        write_input(program.input)
        (program.input if target == "directory" else program.input / target).chmod(0)
        with as_nobody():
            results = [program.rank(), program.check()]
        for code, output in results:
            assert code == 3, output
            assert "Permission denied" in output


def test_file_names_that_are_not_utf8(program: Program) -> None:
    (program.input / "topics.xml").rename(os.fsdecode(os.fsencode(program.input) + b"/topics-\xff.xml"))
    (program.input / "args-me.json").rename(os.fsdecode(os.fsencode(program.input) + b"/args-me-\xfe\x1b.json"))
    paths = ["-i", program.input, "-o", program.output, "--cache-dir", program.work, "--checkpoints", program.checkpoints]
    rank, check = ["rank", *paths, "--system", "bm25"], ["check", *paths[:2], *paths[-2:]]
    for command, code in ((rank, 0), (check, 0), (check, 3)):
        if code:
            (program.input / "args-me.json").write_text("{")
            (program.input / "args-me.json").rename(os.fsdecode(os.fsencode(program.input) + b"/args-me-\xff.json"))
        process = subprocess.run([sys.executable, "-m", "submission", *command], cwd=ROOT, capture_output=True, check=False)
        assert process.returncode == code, process.stderr
        assert b"\x1b" not in process.stderr
        assert b"Traceback" not in process.stderr


def test_decompression_bomb_with_limited_memory(program: Program) -> None:
    compressed = gzip.compress(b"\0" * (1 << 24), 9) * 128
    corpus(compressed, "args-me.json.gz")(program)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (8 << 30,) * 2)\n"
        "from submission.__main__ import main; code = main(sys.argv[1:])\n"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]); sys.exit(code)"
    )
    command = [sys.executable, "-c", script, "rank", "-i", str(program.input), "-o", str(program.output), "--system", "bm25"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 3, process.stderr
    assert "args-me.json.gz: exceeds the decompression limit" in process.stderr
    assert int(process.stdout) < 1_500_000  # in kB; the decompressed file has 2 GB
