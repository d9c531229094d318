"""Tests that invalid inputs and flags cause an exit code and a message with the place."""

import gzip
import json
import math
import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aragorn.io.run_rules import find_run_issues
from aragorn_training.__main__ import main as training
from tests.conftest import format_run_lines, make_argument, write_tiny_ranker
from tests.contract.input_files import (
    CORPUS,
    DEEP,
    DOCUMENTS,
    FORMATS,
    HUB,
    MANY_DIGITS,
    QUERIES,
    TOPIC,
    TWO_TOPICS,
    arguments,
    format_lines,
    join_lines,
    rerank,
    tirex,
    topic,
    topics,
    touche,
    touche_lines,
    write_files,
)

NAN = math.nan
ENTITY = '<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
ONE_TOPIC = TOPIC.format(1, "a")
CANDIDATE = rerank({"score": 0})["rerank.jsonl"]


def write_bomb(file):
    """Write a small gzip file that exceeds the size limit when it is decompressed."""
    file.write_bytes(gzip.compress(b"\0" * (4 << 20)))


# files of the input; part of the message of `rank` and `check`
INPUTS = {
    "no topics": ({"args-me.json": CORPUS, "t": os.mkdir}, "(optionally .gz); subdirectories are not searched; pass each with"),
    "no corpus": ({"topics.xml": ONE_TOPIC, "metadata.json": "{}"}, "no corpus found among metadata.json, topics.xml;"),
    "no corpus, with fix": ({"topics.xml": ONE_TOPIC, "c": os.mkdir}, "elsewhere with another -i; subdirectories are not"),
    "topics: broken link": (topics(lambda file: file.symlink_to("nowhere")), "cannot be read"),
    "topics: no topic": (topics("<topics></topics>"), "no <topic> element"),
    "topics: not UTF-8": (topics(b"<topics>\n<topic>\xff</topic></topics>"), "line 2: malformed XML"),
    "topics: # in number": (topic("#1", "a"), "topics.xml, line 1: invalid number '#1'; ids must not start with #"),
    "topics: no title": (topics("<topics>\n<topic><number>1</number></topic></topics>"), "line 2: topic 1 has no title"),
    "topics: duplicate": (topics(f"<topics>\n{ONE_TOPIC}\n{ONE_TOPIC}</topics>"), "line 3: duplicate topic 1 (first at"),
    "topics: titles in two languages": (
        topics('<t><topic number="1"><title>Zoos</title><title xml:lang="de">Zoo</title></topic></t>'),
        "topic 1 has several titles (Zoos, Zoo); keep one",
    ),
    "topics: two numbers": (topics('<t><topic number="1"><num>2</num></topic></t>'), "several numbers (1, 2); keep one"),
    "topics: other attribute": (topics('<t><topic id="1"><title>a</title></topic></t>'), "expected number or num, as"),
    "topics: second root": (topics(f"<t>{ONE_TOPIC}</t>\n<t>{TOPIC.format(2, 'b')}</t>"), "put all topics into one <topics>"),
    "topics: another file without topics": (
        {**topics("<t><top><num>1</num></top></t>", "topics-2.xml"), "topics.xml": TWO_TOPICS.join(("<t>", "</t>"))},
        "topics-2.xml: no <topic> element, but <t>, <top>, <num>; expected <topics>",
    ),
    "topics: TIRA's file name": ({"queries.xml": "", "args-me.json": CORPUS}, "topics found among args-me.json, queries.xml;"),
    "topics: named .gz": (topics(ONE_TOPIC.encode(), "topics.xml.gz"), "remove .gz from its name"),
    "topics: entity bomb": (topics(f"{ENTITY}{TOPIC.format(1, '&b;')}"), "document type declaration"),
    "topics: FIFO": (topics(os.mkfifo), "a FIFO; expected a regular file"),
    "corpus: not UTF-8": (touche(b'{"arguments": [\n{"id": "caf\xe9"}]}'), "argument 1, byte 11: malformed JSON (not UTF-8)"),
    "corpus: short premises": (touche(json.dumps({"arguments": [make_argument("a", premise="zoo")]})), "at least 15 words"),
    "corpus: digits as id": (arguments('{"id":' + MANY_DIGITS + ',"conclusion":"c","premises":[]}'), "argument 4"),
    "corpus: escape in id": (arguments(make_argument("x\x1b[31m")), r"invalid id 'x\x1b"),
    "corpus: id of two texts": (arguments(make_argument("a1", "Another")), "args-me.json: argument a1 occurs 2 times"),
    "corpus: no conclusion": (arguments({"id": "b", "premises": []}), "(id b): Object missing required field `conclusion`"),
    "corpus: truncated after argument": (touche('{"arguments": [{"id": 1}, '), "line 1, column 27: malformed JSON (Input data"),
    "corpus: NaN as premise": (arguments({"id": "b", "premises": [{"text": NAN}]}), "612 (after id b): NaN is not valid JSON"),
    "corpus: NaN outside arguments": (touche('{"version": NaN, "arguments": []}'), "line 1, column 13: NaN is not valid JSON"),
    "corpus: lone surrogates": (
        touche(r'{"arguments": [{"id": "b", "premises": [{"text": "\ud83d\ude00 \\ud800 \uD83D"}]}, {"x": "\udc00"}]}'),
        r"line 1, column 72 (after id b): \uD83D is a lone surrogate, which UTF-8 cannot encode; expected",
    ),
    "corpus: UTF-16": (touche(CORPUS.encode("utf-16")), "convert it to UTF-8"),
    "lines: single object": (touche(CORPUS, "args-me.jsonl"), "a single object with all arguments must be named .json"),
    "topics: SGML": (topics("<top>\n<num> Number: 1\n</top>"), "expected <topics><topic>"),
    "corpus: list": (touche(json.dumps([make_argument("a")])), 'a list of arguments must be the value of "arguments"'),
    "TIREx: segments": (tirex(documents='{"docno": "d", "segments": [{"text": "x"}]}'), "missing text; expected lines"),
    "corpus: truncated gzip": (touche(gzip.compress(CORPUS.encode())[:-9], "args-me.json.gz"), "damaged gzip"),
    "corpus: gzip bomb": (touche(write_bomb, "args-me.json.gz"), "decompression bomb"),
    "corpus: deep": (touche('{"arguments": [{"id": "a"}, {"id": ' + DEEP), "JSON nested too deeply"),
    "lines: no premise": (touche_lines(HUB, {"id": "b", "conclusion": "C"}), "line 2 (id b): has neither premises nor"),
    "lines: named .json": (touche(join_lines(HUB, HUB)), "files with one argument per line must be named .jsonl"),
    "lines: several lines": (touche('{\n  "id": "a"\n}', "args-me.jsonl"), "line 1: a JSON value over several lines; expected"),
    "lines: array": (touche('[{"id": "a"}]', "args-me.jsonl"), "line 1: a JSON array; expected"),
    "TIREx: several lines": (tirex(documents='{\n  "docno": "d"\n}'), "line 1: a JSON value over several lines; expected"),
    "TIREx: array": (tirex(documents='[\n  {"docno": "d"}]'), "line 1: a JSON value over several lines; expected"),
    "lines: two premises": (touche_lines({**make_argument("a"), "argument": "x"}), "(id a): has both premises and argument"),
    "other format: CSV": ({"topics.xml": ONE_TOPIC, "args.csv": "id,premises\n"}, "args.csv: CSV, BEIR and TIREx without"),
    "other format: BEIR": ({**tirex(), "documents.jsonl": '{"_id": "1"}'}, "jsonl, line 1: missing docno; expected lines"),
    "other format: topics and TIREx": ({"topics.xml": ONE_TOPIC, "corpus.jsonl": DOCUMENTS}, "corpus.jsonl: CSV, BEIR and"),
    "other format: BEIR documents": ({"corpus.jsonl.gz": '{"_id": "1", "text": "b"}'}, "no queries.jsonl found; add this"),
    "TIREx: no queries": (tirex(""), "no queries"),
    "TIREx: blank query": (tirex('{"qid": "1", "query": " "}'), "line 1: topic 1 has an empty query"),
    "TIREx: object as text": (tirex(documents='{"docno": "d", "text": {}}'), "line 1: Expected `str`, got `object` - at `$.te"),
    "TIREx: two document ids": (tirex(documents='{"docno": "a", "doc_id": "b", "text": "x"}'), "docno is 'a' and doc_id is"),
    "TIREx: queries alone": ({"queries.jsonl": QUERIES}, "no documents.jsonl or corpus.jsonl found"),
    "TIREx: no query": (tirex(QUERIES + '{"qid": "3"}'), "queries.jsonl, line 3: missing query; expected"),
    "lines: high surrogate": (touche_lines(r'{"id": "b", "argument": "\ud800"}'), r"line 1, byte 25: \ud800 is a lone surr"),
    "TIREx: not UTF-8": (tirex(documents=DOCUMENTS.encode() + b'{"docno": "\xff"}\n'), "documents.jsonl, line 4"),
    "TIREx: gzip bomb": ({"queries.jsonl": QUERIES, "documents.jsonl.gz": write_bomb}, "decompression bomb"),
    "TIREx: fraction as id": (tirex(documents='\n{"docno": 1.0, "text": "x"}'), "2: Expected `int | str`, got `float` - at"),
    "TIREx: repeated document": (tirex(documents=DOCUMENTS + '{"docno": "d1", "text": "x"}'), "line 4: docno d1 repeated with"),
    "candidates: duplicate": (rerank({}, {"docno": "d1"}), "duplicate document d1 in topic 1"),
    "candidates: unknown topic": ({**tirex(), **rerank({"docno": "d0", "qid": "9"})}, "topic is not in the input (first: 9)"),
    "candidates: rank in some lines": (rerank({"rank": 1}, {"rank": 2}, {}), "d3): line 1 has a rank and line 3 has none"),
    "candidates: score NaN": (rerank({"score": NAN}), "rerank.jsonl, line 1, byte 70: NaN is not valid JSON; expected"),
    "candidates: score '1_0'": (rerank({"score": "1_0"}), "score is '1_0'"),
    "candidates: score of 401 digits": (rerank({"score": 10**400}), "rerank.jsonl, line 1: score is 1000"),
    "candidates: score 1e999": ({"rerank.jsonl": CANDIDATE.replace("0}", "1e999}")}, "line 1: Number out of range"),
    "candidates: rank 1.5": (rerank({"rank": 1.5}), "rerank.jsonl, line 1: rank is 1.5; expected a non-negative integer"),
}  # fmt: skip

SIX_FIELDS = "expected 6: `qid Q0 docno rank score tag`"
ADD = "add Q0 after the qid, rank and score after the docno, and a tag"
RUNS = {  # run to re-rank; part of the message
    "empty": ("", "empty run"),
    "eight fields": ("1 Q0 a1 1 3 x y z\n", f"line 1: 8 fields; {SIX_FIELDS}; remove 'y z' after the tag"),
    "rank of many digits": (f"1 Q0 a1 {MANY_DIGITS} 3 x\n", "line 1: invalid rank '7777"),
    **{
        f"score {score}": (format_lines("2", score), f"line 2: invalid score '{score}'; expected a finite number")
        for score in ("nan", "inf", "1e309", "3,5", "1_0", "\u0661")
    },
    "several errors": (format_lines("x", "y"), "run.txt, line 1: invalid score 'x'; expected a finite"),
    "ranks oppose scores": (format_lines("1", "2"), "line 2: ranks and scores disagree in 1 of 1 topics; first in topic 1: a2"),
    "duplicate": ("1 Q0 a1 1 3 x\n1 Q0 a1 2 2 x\n", "duplicate document a1 in topic 1 (first in line 1)"),
    "not UTF-8": (b"1 Q0 a\xff 1 3 x\n", "not UTF-8"),
    "FIFO": (os.mkfifo, "a FIFO"),
    "program": (b"\x7fELF\2\1\1\0\xff", "has null characters and thus is no text file; use a text file, or unpack"),
    "UTF-16": ("1 Q0 a1 1 3 x\n".encode("utf-16"), "not UTF-8 at byte 0; convert it to UTF-8"),
    "leading zeros": ("01 Q0 a1 1 1 t\n02 Q0 a1 1 1 t\n", "none of the 2 topics is in the input (first: 01); "),
    "five fields": ("1 Q0 a1 1 3\n", f"line 1: 5 fields; {SIX_FIELDS}; {ADD}"),
    "three fields": ("q1 0 d1\n", f"line 1: 3 fields; {SIX_FIELDS}; {ADD}"),
    "CSV with spaces": ("1, Q0, a1, 1, 2.5, t\n", "line 1: invalid rank '1,'; expected an integer of at"),
    "CSV of two columns": ("1,a1\n", f"line 1: 1 field; {SIX_FIELDS}; this is CSV"),
    "CSV of semicolons": ("1;Q0;a1;1;2.5;t\n", f"line 1: 1 field; {SIX_FIELDS}; this is CSV"),
    "JSON over several lines": ("{\n", f"line 1: 1 field; {SIX_FIELDS}; this is JSON"),
    "JSON lines": ('{"qid":"1","docno":"a1"}\n', f"line 1: 1 field; {SIX_FIELDS}; this is JSON"),
    "header": ("qid Q0 docno rank score tag\n1 Q0 a1 1 2 t\n", "line 1: invalid rank 'rank'; expected an integer of at"),
    "header of four fields": ("query docno rank score\n", f"line 1: 4 fields; {SIX_FIELDS}; this is a header"),
    "YAML list": ("- qid: 1\n", f"line 1: 3 fields; {SIX_FIELDS}; this is YAML: convert it to lines"),
    "no file": (lambda file: None, "no run found; expected"),
    "unknown document": ("1 Q0 a1 1 2 t\n1 Q0 z 2 1 t\n", "run.txt: 1 of 2 documents is not in the input (first: z)"),
}  # fmt: skip
QRELS = "1 0 a 2\n1 0 b 1\n1 0 c 0\n2 0 a 1\n2 0 d 2\n2 0 e 0\n3 0 b 2\n3 0 c -2\n"
RUN = format_run_lines(dict.fromkeys("123", "abxc"))
# run, qrels, and part of the message of `evaluate`
EVALUATIONS = {
    "run: no common topic": ("51 Q0 a 1 2 t\n52 Q0 a 1 2 t\n", QRELS, "no common topic"),
    "run: nothing relevant": ("8 Q0 a 1 2 t\n", QRELS + "8 0 a 0\n", "the common topics (8) have no relevant document"),
    "run: other topics": ("1 Q0 d 1 2 t\n3 Q0 a 1 1 t\n", QRELS, "no document is judged for its topic ("),
    "run: judged without relevant": ("1 Q0 x 1 2 t\n8 Q0 a 1 1 t\n", QRELS + "8 0 a 0\n", "use qrels of the same corpus"),
    "run: other corpus": ("1 Q0 x-1 1 3 t\n", QRELS, "q.qrels: a for topic 1); use qrels of the same corpus"),
    **{
        f"qrels: grade {grade}": (RUN, QRELS + f"4 0 a {grade}\n", f"line 9: invalid grade '{grade}'; expected a number in")
        for grade in ("2147483648", "1e-320")
    },
    "qrels: a run": (RUN, "1 Q0 a 1 2.5 t\n", "expected 4: `topic 0 docno grade`; this is a run, not judgments"),
    "run: qrels": (QRELS, QRELS, "; these are judgments, not a run"),
    "qrels: comma": (RUN, "1 0 a 0,5\n", "q.qrels, line 1: invalid grade '0,5'; expected a number"),
    "qrels: hint on BEIR": (RUN, "query-id\tcorpus-id\tscore\n1\ta\t1\n", "in BEIR qrels, insert 0"),
    "qrels: three fields": (RUN, "q1 0 d1\n", "expected 4: `topic 0 docno grade`; in BEIR qrels, insert 0 as second field"),
    "qrels: CSV": (RUN, "1, 0, a, 2\n", "commas between the fields; expected `topic 0 docno grade`; this is CSV"),
    "qrels: header": (RUN, "qid 0 docno rel\n1 0 b 1\n", "this is a header: delete the line"),
    "qrels: a word as grade": (RUN, "1 0 docno rel\n1 0 b 1\n", "in absolute value\n"),
    "qrels: grade 1e30": (RUN, "1 0 a 1e30\n", "in absolute value\n"),
}  # fmt: skip

PATH = "expected a non-empty path"
TEAM = "choose another --team"
EXPLAIN = ("explain", "-i", "input", "--checkpoints", "checkpoints", "--system")
EVALUATE = ("evaluate", "--qrels", "input/q.qrels")
# arguments; part of the message; all have exit code 2
FLAGS = {
    "system with hyphen": (("rank", "--system", "CEDR-DRMM"), "did you mean 'cedr_drmm'?"),
    **{
        f"depth {depth[:9]!r}": (("rank", f"--depth={depth}"), "expected an integer from 1 to 1000")
        for depth in ("0", "1001", MANY_DIGITS, "²")
    },
    **{
        f"empty {flag}": (("rank", flag, ""), PATH)
        for flag in ("-i", "-o", "--cache-dir", "--input-run", "--checkpoints")
    },
    "shared cache without Ray": (("rank", "--shared-cache", "--cache-dir", "w"), "cache requires --engine ray; add it"),
    "shared cache without directory": (("rank", "--shared-cache", "--engine", "ray"), "cache requires --cache-dir; add it"),
    "Ray address without Ray": (("rank", "--ray-address", "host:1"), "--ray-address requires --engine ray"),
    "team of a path": (("rank", "--team", "../a"), TEAM),
    "team with line end": (("rank", "--team", "a\n"), TEAM),
    "explain: unknown topic": ((*EXPLAIN, "knrm", "--qid=9", "--docno=a1"), "unknown topic '9'"),
    "explain: three documents": ((*EXPLAIN, "knrm", "--qid=1", "--docno=a", "--docno=b", "--docno=c"), "compare two"),
    "explain: unknown document": ((*EXPLAIN, "knrm", "--qid=1", "--docno=z"), "unknown document 'z'; expected a docno"),
    "evaluate: two qrels of a name": ((*EVALUATE, "--qrels", "q.qrels", "r"), "name each file with NAME=FILE"),
    "evaluate: file without name": ((*EVALUATE, "=run.txt"), "expected NAME before ="),
    "evaluate: unknown baseline": ((*EVALUATE, "--baseline", "runn", "input/run.txt"), "or NAME of NAME=RUN; did you mean"),
}  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_invalid_inputs_are_refused(name, tmp_path, call, monkeypatch):
    files, message = INPUTS[name]
    monkeypatch.setattr("aragorn.io.files.EXTRA_BYTES", 1 << 20)
    directory = write_files(tmp_path / "input", files)
    for command in (
        ("rank", "-o", tmp_path / "out", "--system", "bm25"),
        ("check", "--checkpoints", tmp_path),
    ):
        code, output = call(*command, "-i", directory)
        assert (code, message in output, "\x1b" in output) == (3, True, False), output
    assert not any((tmp_path / "out").glob("*"))


@pytest.mark.parametrize("name", RUNS)
def test_invalid_runs_are_refused(name, tmp_path, call):
    content, message = RUNS[name]
    directory = write_files(tmp_path / "input", touche())
    run = write_files(tmp_path / "run", {"run.txt": content})
    paths = ["-i", directory, "-o", tmp_path / "out", "--input-run", run]
    code, output = call("rank", *paths, "--system", "bm25")
    assert (code, message in output, "\x1b" in output) == (3, True, False), output
    assert not any((tmp_path / "out").glob("*"))


@pytest.mark.parametrize("name", EVALUATIONS)
def test_invalid_evaluations_are_refused(name, tmp_path, call):
    run, qrels, message = EVALUATIONS[name]
    directory = write_files(tmp_path / "input", {"run.txt": run, "q.qrels": qrels})
    flags = ["--qrels", directory / "q.qrels", "-o", tmp_path / "tables", directory / "run.txt"]
    code, output = call("evaluate", *flags, program=training)
    assert (code, message in output) == (3, True), output
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("name", FLAGS)
def test_invalid_flags_are_refused(name, tmp_path, call, monkeypatch):
    flags, message = FLAGS[name]
    write_files(tmp_path / "input", {**touche(), "run.txt": RUN, "q.qrels": QRELS})
    write_tiny_ranker(tmp_path / "checkpoints", "knrm", 0)
    monkeypatch.chdir(tmp_path)
    code, output = call(*flags, **({"program": training} if flags[:1] == ("evaluate",) else {}))
    assert (code, message in output, "\x1b" in output) == (2, True, False), output
    assert "nowhere" not in output  # flags are checked before any input is read
    assert {path.name for path in tmp_path.iterdir()} == {"input", "checkpoints"}


TOKENS = st.sampled_from([
    b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"<", b">", b"/", b"&", b"\\", b"\\u0000", b"\\ud800", b"\0", b"\xff",
    b"\n", b" ", b"\t", b"\x1b", b"NaN", b"1e999", b"-", b"null", b"0.5", b"[[]]", b"<![CDATA[", b"<!--", b"&#0;", b"&lt;",
    b"<?xml?>", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u202e\u2028é".encode(), b"9" * 30, b"a1", b"d1", b"1",
])  # fmt: skip
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 20), TOKENS | st.binary(max_size=6)), max_size=4
)


def apply_edits(content, edits):
    """Encode a text in UTF-8 and apply the edits in order."""
    data = str(content).encode()
    for position, length, replacement in edits:
        start = int(position * len(data))
        data = data[:start] + replacement + data[start + length :]
    return data


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "qrels"])
@settings(max_examples=settings.default.max_examples // 2)
@given(edits=EDITS)
def test_damaged_inputs_are_ranked_or_refused(name, edits, tmp_path, tiny_models, call):
    files, damaged = FORMATS[name]
    directory = tmp_path / "input"
    out = tmp_path / "out"
    shutil.rmtree(directory, ignore_errors=True)
    write_files(directory, {**files, damaged: apply_edits(files[damaged], edits)})
    flags = ["-i", directory, "--checkpoints", tiny_models]
    run = directory / "run.txt" if name == "run" else None
    systems = [f"--system={system}" for system in ("bm25", "dirichlet_rm3")]
    run_flags = ["--input-run", run] if run else []
    rank_flags = ["-o", out, "--overwrite", *systems, *run_flags, "--device=cpu"]
    code, output = call("rank", *flags, *rank_flags)
    checked, check_output = call("check", *flags, *(["--run", run] if run else []))
    assert code in (0, 3), output
    # any run of these is too small for TIRA
    assert checked == (3 if run else code), output + check_output
    if code == 0:
        issues = [
            issue for file in out.glob("*.txt") for issue in find_run_issues(file, None, None)
        ]
        categories = {issue.category for issue in issues}
        assert categories <= {"too few lines", "too few topics"}, output
