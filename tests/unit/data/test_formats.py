"""Tests that topics, documents and candidates in other software's formats are read, or rejected with an error message."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from submission.__main__ import main
from submission.data.args_me_records import decode_arguments
from submission.data.dataset import Dataset
from submission.data.runs import read_run
from tests.conftest import PREMISE, make_argument, write_tiny_ranker
from training.data.debates import read_debate_titles, read_topics

TOPICS = "<topics><topic><number>{}</number><title>zoos</title></topic></topics>"
QUERIES = '{"qid": 1, "query": "zoos"}\n'
DOCUMENTS = '{"docno": "d", "text": "zoos are cruel"}\n'
HUB = {"conclusion": "Zoos", "stance": "CON", "id": "a", "argument": PREMISE}
NAN, INFINITY = math.nan, math.inf


def write(directory: Path, **files: str) -> Path:
    """Write input files, compressed if their names end with gz; in the names, _ stands for a dot and __ for a hyphen."""
    for name, text in files.items():
        file = directory / name.replace("__", "-").replace("_", ".")
        file.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return directory


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def touche(*arguments: dict[str, Any]) -> dict[str, str]:
    return {"topics_xml": TOPICS.format(1), "args__me_json": json.dumps({"arguments": arguments})}


def json_lines(*rows: dict[str, Any] | str) -> dict[str, str]:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    return {"topics_xml": TOPICS.format(1), "args__me_jsonl": text}


def rerank(*rows: dict[str, Any], **fields: Any) -> dict[str, str]:
    defaults = {"qid": "1", "query": "zoos", "text": "zoos"}
    return {"rerank_jsonl": lines(*({**defaults, "docno": f"d{n}", **fields, **row} for n, row in enumerate(rows, 1)))}


def tirex(queries: str = QUERIES, documents: str = DOCUMENTS) -> dict[str, str]:
    return {"queries_jsonl": queries, "documents_jsonl": documents}


VALID: dict[str, tuple[dict[str, str], list[list[str]], list[list[str]]]] = {  # files, topics, docno and premise
    "whole numbers as ids": (
        tirex(documents=lines({"docno": 0, "text": "x"}, {"docno": -7, "text": "y"}, {"docno": 10**19, "text": "z"})),
        [["1", "zoos"]],
        [["-7", "y"], ["0", "x"], [str(10**19), "z"]],
    ),
    "ir_datasets' names": (
        tirex('{"query_id": "q1", "text": "zoos"}', '{"doc_id": "d", "default_text": "x"}'),
        [["q1", "zoos"]],
        [["d", "x"]],
    ),
    "a third name of an id": (
        tirex('{"qid": "1", "default_text": "zoos"}', '{"docid": 3, "text": "x"}'),
        [["1", "zoos"]],
        [["3", "x"]],
    ),
    "two names that agree": (
        tirex('{"qid": 1, "query_id": "1", "query": "a", "text": "a"}', '{"docno": 7, "doc_id": "7", "text": "x"}'),
        [["1", "a"]],
        [["7", "x"]],
    ),
    "as the client writes it": (
        {
            "queries_jsonl": '{"qid": "1", "query": "a", "original_query": {"query_id": 1.5, "text": null}}',
            "corpus_jsonl_gz": '{"docno": "d", "text": "x", "original_document": {"docno": null}}',
        },
        [["1", "a"]],
        [["d", "x"]],
    ),
    "documents before a corpus": (
        {**tirex(), "corpus_jsonl": '{"docno": "e", "text": "y"}'},
        [["1", "zoos"]],
        [["d", "zoos are cruel"]],
    ),
    "repeated with equal texts": (
        tirex(QUERIES + QUERIES.replace("1", '"1"'), DOCUMENTS + DOCUMENTS.replace("}", ', "title": "other"}')),
        [["1", "zoos"]],
        [["d", "zoos are cruel"]],
    ),
    "empty and short texts": (
        tirex(documents=lines({"docno": "a", "text": ""}, {"docno": "b", "text": "ox"})),
        [["1", "zoos"]],
        [["a", ""], ["b", "ox"]],
    ),
    "a list that has neither query nor text": (
        {**tirex(), "rerank_jsonl": '{"qid": 1, "docno": "d"}'},
        [["1", "zoos"]],
        [["d", "zoos are cruel"]],
    ),
    "a list of the same texts in two topics": (
        rerank({"docno": "d"}, {"docno": "d", "qid": "2"}),
        [["1", "zoos"], ["2", "zoos"]],
        [["d", "zoos"]],
    ),
    "a model hub's lines": (json_lines(HUB, "", {**HUB, "id": "b"}), [["1", "zoos"]], [["a", PREMISE], ["b", PREMISE]]),
    "the big file's arguments as lines": (
        json_lines({**make_argument("a"), "premises": [{"text": "one"}, {"text": "two"}]}),
        [["1", "zoos"]],
        [["a", "one two"]],
    ),
    "both sorts of lines": (
        json_lines(make_argument("a"), {**HUB, "id": "b"}),
        [["1", "zoos"]],
        [["a", PREMISE], ["b", PREMISE]],
    ),
    "packed lines of a portal": (
        {"topics_xml": TOPICS.format(1), "idebate_jsonl_gz": "\ufeff" + lines(HUB, HUB)},
        [["1", "zoos"]],
        [["a", PREMISE]],
    ),
    "JSON Lines next to JSON": (
        {**touche(make_argument("a", "Zoos")), "args__me_jsonl": lines(HUB)},
        [["1", "zoos"]],
        [["a", PREMISE]],
    ),
    "args.me next to another corpus.jsonl": (
        {**touche(make_argument("a")), "corpus_jsonl": '{"_id": "x", "text": "y"}'},
        [["1", "zoos"]],
        [["a", PREMISE]],
    ),
    "the word NaN in a text": (
        touche(make_argument("a", premise="[NaN, Infinity]")),
        [["1", "zoos"]],
        [["a", "[NaN, Infinity]"]],
    ),
    "# inside a number": (
        {**touche(make_argument("a")), "topics_xml": TOPICS.format("1#")},
        [["1#", "zoos"]],
        [["a", PREMISE]],
    ),
}

INVALID: dict[str, tuple[dict[str, str], str]] = {  # files, part of the message
    "NaN as a premise": (
        touche(make_argument("a"), {**make_argument("b"), "premises": [{"text": NAN}]}),
        "args-me.json, argument 2 (id b): premises[0].text is NaN; NaN and Infinity",
    ),
    "NaN in a context": (
        touche({**make_argument("a"), "context": {"year": NAN}, "more": 1}),
        "args-me.json, argument 1 (id a): context.year is NaN",
    ),
    "NaN before the id": (
        touche({"stance": [0, -INFINITY], **make_argument("a")}),
        "argument 1 (id a): stance[1] is -Infinity",
    ),
    "NaN as the id": (touche({**make_argument("a"), "id": NAN}), "args-me.json, argument 1: id is NaN"),
    "NaN outside the arguments": (
        {"topics_xml": TOPICS.format(1), "args__me_json": '{"version": NaN, "arguments": []}'},
        "args-me.json: version is NaN",
    ),
    "a fault inside a field that is not read": (
        {
            "topics_xml": TOPICS.format(1),
            "args__me_json": '{"arguments": [{"id": "a"},\n{"id": "b", "context": {"year": nan}}]}',
        },
        "args-me.json, argument 2, line 2, column 34: malformed JSON",
    ),
    "half a character": (
        {
            "topics_xml": TOPICS.format(1),
            "args__me_json": '{"arguments": [{"id": "a", "conclusion": "\\ud800", "premises": []}]}',
        },
        "args-me.json, argument 1, line 1",
    ),
    "a list of many levels": (
        {"topics_xml": TOPICS.format(1), "args__me_json": '{"arguments": [{"id": "a"}, {"id": ' + "[" * 5000},
        "args-me.json, argument 2, line 1",
    ),
    "lines in one object's name": (
        {"topics_xml": TOPICS.format(1), "args__me_json": lines(HUB, HUB)},
        "files with one argument per line must be named .jsonl",
    ),
    "a line without a premise": (
        json_lines(HUB, {"id": "b", "conclusion": "C"}),
        "args-me.jsonl, line 2 (id b): neither premises nor argument; expected {",
    ),
    "a line with both": (
        json_lines({**make_argument("a"), "argument": "x"}),
        "args-me.jsonl, line 1 (id a): both premises and argument",
    ),
    "a line that is cut": (json_lines(HUB, '{"id": "b", "concl'), "args-me.jsonl, line 2: malformed JSON at byte 18"),
    "a line without its text": (
        json_lines({**HUB, "argument": None}),
        "line 1 (id a): Expected `str`, got `null` - at `$.argument`",
    ),
    "a line of another text": (json_lines(HUB, {**HUB, "argument": "x"}), "args-me.jsonl: argument a occurs 2 times"),
    "a line with a blank in its id": (
        json_lines({**HUB, "id": "a b"}),
        "args-me.jsonl, line 1: invalid id 'a b'; ids must be non-empty, without whitespace",
    ),
    "NaN in a line": (
        json_lines(HUB, "", {**HUB, "id": "b", "argument": NAN}),
        "args-me.jsonl, line 3 (id b): argument is NaN",
    ),
    "NaN in a line's field that is not read": (
        json_lines({**make_argument("a"), "context": {"year": INFINITY}}),
        "args-me.jsonl, line 1 (id a): context.year is Infinity",
    ),
    "the corpus of 2022": (
        {"topics_xml": TOPICS.format(1), "args_csv": "id,conclusion,premises\n"},
        "args.csv: args.me as CSV (Touché 2022)",
    ),
    "a packed table": (
        {"topics_xml": TOPICS.format(1), "x_csv_gz": "id\n"},
        "x.csv.gz: args.me as CSV (Touché 2022)",
    ),
    "BEIR": (
        {"queries_jsonl": '{"_id": "1", "text": "a"}', "corpus_jsonl": '{"_id": "1", "title": "a", "text": "b"}'},
        "corpus.jsonl, line 1: BEIR format (`_id`, `title`, `text`) is not supported; rename `_id` to `docno`",
    ),
    "BEIR's queries": (
        {"queries_jsonl": '{"_id": "1", "text": "a"}', "documents_jsonl": DOCUMENTS},
        "queries.jsonl, line 1: BEIR format (`_id`, `title`, `text`) is not supported; rename `_id` to `qid`",
    ),
    "BEIR's documents alone": ({"corpus_jsonl_gz": '{"_id": "1", "text": "b"}'}, "corpus.jsonl.gz: BEIR format"),
    "BEIR's documents with topics": (
        {"topics_xml": TOPICS.format(1), "corpus_jsonl": '{"_id": "1", "text": "b"}'},
        "corpus.jsonl: BEIR format",
    ),
    "documents with Touché's topics": (
        {"topics_xml": TOPICS.format(1), "corpus_jsonl": DOCUMENTS},
        "corpus.jsonl(.gz) in TIREx format requires queries.jsonl",
    ),
    "two ids": (
        tirex(documents='{"docno": "a", "doc_id": "b", "text": "x"}'),
        "documents.jsonl, line 1: docno is 'a' and doc_id is 'b'; remove one",
    ),
    "two topic ids": (
        tirex('{"qid": 1, "query_id": 2, "query": "x"}'),
        "queries.jsonl, line 1: qid is '1' and query_id is '2'",
    ),
    "two texts": (
        tirex(documents='{"docno": "a", "text": "x", "default_text": "y"}'),
        "line 1 (docno a): text is 'x' and default_text is 'y'",
    ),
    "two queries": (tirex('{"qid": 1, "query": "x", "text": "y"}'), "line 1 (qid 1): query is 'x' and text is 'y'"),
    "a fraction as id": (
        tirex(documents='\n{"docno": 1.0, "text": "x"}'),
        "documents.jsonl, line 2: docno is 1.0; expected an id",
    ),
    "a truth value as id": (tirex('{"qid": true, "query": "x"}'), "queries.jsonl, line 1: qid is true; expected an id"),
    "null as id": (
        tirex(documents='{"docid": null, "text": "x"}'),
        "documents.jsonl, line 1: docid is null; expected an id",
    ),
    "an object as text": (tirex(documents='{"docno": "d", "text": {}}'), "line 1 (docno d): text is {}; expected a string"),
    "no id": (
        tirex(documents='{"text": "x"}'),
        "documents.jsonl, line 1: missing docno (or doc_id, docid); expected a JSON object",
    ),
    "a repeated document": (
        tirex(documents=DOCUMENTS * 2 + DOCUMENTS.replace("cruel", "fun")),
        "documents.jsonl, line 3: docno d repeated with different text (first in line 1)",
    ),
    "a repeated query": (
        tirex(QUERIES + '{"qid": "1", "query": "ox"}'),
        "queries.jsonl, line 2: qid 1 repeated with different query",
    ),
    "NaN as text": (
        tirex(documents='{"docno": "d", "text": NaN}'),
        "documents.jsonl, line 1 (docno d): text is NaN; NaN and Infinity",
    ),
    "NaN in an original document": (
        tirex(documents='{"docno": 4, "text": "x", "original_document": {"year": NaN}}'),
        "line 1 (docno 4): original_document.year is NaN",
    ),
    "no documents": (tirex(documents=""), "all 0 documents are empty"),
    "no texts": (tirex(documents='{"docno": "d", "text": " "}'), "all 1 documents are empty"),
    "a comment for a topic": (
        {**touche(make_argument("a")), "topics_xml": TOPICS.format("#1")},
        "topics.xml, line 1: invalid number '#1'; ids must not start with #",
    ),
    "a comment for a query": (
        tirex('{"query_id": "#", "query": "x"}'),
        "queries.jsonl, line 1: query_id is '#'; ids must not",
    ),
    "a comment in a list": (
        rerank({"qid": "#1"}),
        "rerank.jsonl, line 1 (docno d1): qid is '#1'; ids must not start with #",
    ),
    "a blank in a topic's number": (
        tirex('{"qid": "1 2", "query": "x"}'),
        "queries.jsonl, line 1: qid is '1 2'; ids must be",
    ),
    "a rank in some lines": (
        rerank({"rank": 1}, {"rank": 2}, {}),
        "rerank.jsonl, line 3 (qid 1, docno d3): line 1 has a rank and line 3 has none",
    ),
    "a score in some lines": (
        rerank({}, {"score": 1}),
        "rerank.jsonl, line 2 (qid 1, docno d2): line 2 has a score and line 1 has none",
    ),
    "a score that is NaN": (
        rerank({"score": NAN}),
        "rerank.jsonl, line 1 (qid 1, docno d1): score is NaN; NaN and Infinity",
    ),
    "a score that is NaN in a text": (rerank({"score": "nan"}), "rerank.jsonl, line 1 (qid 1, docno d1): score is 'nan'"),
    "a score in words": (rerank({"score": "high"}), "rerank.jsonl, line 1 (qid 1, docno d1): score is 'high'"),
    "a score of Python's": (rerank({"score": "1_0"}), "rerank.jsonl, line 1 (qid 1, docno d1): score is '1_0'"),
    "a score of null": (
        rerank({"score": None}),
        "rerank.jsonl, line 1 (qid 1, docno d1): score is null; expected a finite number",
    ),
    "a rank of a half": (
        rerank({"rank": 1.5}),
        "rerank.jsonl, line 1 (qid 1, docno d1): rank is 1.5; expected a non-negative integer",
    ),
    "a rank below 0": (rerank({"rank": -1}), "rank is -1; expected a non-negative integer"),
    "a rank that is true": (rerank({"rank": True}), "rank is true; expected a non-negative integer"),
    "a score of many digits": (rerank({"score": 10**400}), "(qid 1, docno d1): score is 1000"),
}

NUMBERS: dict[str, tuple[dict[str, str], list[float], list[float]]] = {  # files, ranks and scores in line order
    "neither": (rerank({}, {}), [NAN, NAN], [NAN, NAN]),
    "ranks": (rerank({"rank": 2}, {"rank": 1}), [2, 1], [NAN, NAN]),
    "scores": (rerank({"score": 1}, {"score": 2.5}), [NAN, NAN], [1, 2.5]),
    "whole numbers with a point": (rerank({"rank": 1.0, "score": -0.5}, {"rank": 0.0, "score": 3}), [1, 0], [-0.5, 3]),
    "texts": (rerank({"rank": "1", "score": "3.5"}, {"rank": "2.0", "score": "1e-05"}), [1, 2], [3.5, 1e-5]),
}


@pytest.mark.parametrize("name", VALID)
def test_valid_formats_are_read(name: str, tmp_path: Path) -> None:
    files, topics, documents = VALID[name]
    source = Dataset(write(tmp_path, **files))
    assert source.topics.to_numpy().tolist() == topics
    assert source.documents[["docno", "premise"]].to_numpy().tolist() == documents
    assert all(type(docno) is str for docno in source.documents["docno"])
    ranking = source.supplied_ranking(lambda docnos: set(docnos) - set(source.documents["docno"]))
    assert (ranking is None) == ("rerank_jsonl" not in files)


@pytest.mark.parametrize("name", INVALID)
def test_rank_and_check_reject_invalid_formats(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, words = INVALID[name]
    (tmp_path / "input").mkdir()
    directory = str(write(tmp_path / "input", **files))
    assert main(["rank", "-i", directory, "-o", str(tmp_path / "out"), "--system", "bm25", "--device", "cpu"]) == 3
    assert words in capsys.readouterr().err
    assert main(["check", "-i", directory, "--checkpoints", str(tmp_path)]) == 3
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("name", NUMBERS)
def test_ranks_and_scores_of_candidates(name: str, tmp_path: Path) -> None:
    files, ranks, scores = NUMBERS[name]
    candidates = Dataset(write(tmp_path, **files)).reader.read_candidates()
    types = {"qid": object, "docno": object, "rank": float, "score": float}
    expected = pd.DataFrame({"qid": "1", "docno": ["d1", "d2"], "rank": ranks, "score": scores}).astype(types)
    assert candidates is not None
    pd.testing.assert_frame_equal(candidates.drop(columns="line"), expected)


def test_long_rerank_file_keeps_order(tmp_path: Path) -> None:
    rows = [
        {"qid": str(topic), "docno": f"d{n * 7 % 150}", "rank": n, "score": 1000 - n} for topic in (2, 1) for n in range(1, 151)
    ]
    candidates = Dataset(write(tmp_path, **rerank(*rows))).reader.read_candidates()
    assert candidates is not None
    assert candidates.drop(columns="line").to_dict("records") == rows


def test_rerank_file_without_scores_keeps_line_order(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    directory = write(tmp_path / "input", **rerank(*({"docno": docno} for docno in "cab")))
    assert main(["rank", "-i", str(directory), "-o", str(tmp_path / "out"), "--system", "bm25", "--device", "cpu"]) == 0
    assert read_run(tmp_path / "out" / "run.txt")["docno"].tolist() == ["c", "a", "b"]


def test_systems_rank_short_documents(tmp_path: Path, checkpoints_copy: Path) -> None:
    write_tiny_ranker(checkpoints_copy, "knrm", 1)
    (tmp_path / "small").mkdir()
    texts = ["zoos", "", " ", "topicaa", "topicaa fillera", "?", "zoos are cruel"]
    directory = write(
        tmp_path / "small",
        **tirex('{"qid": "1", "query": "topicaa zoos"}', lines(*({"docno": n, "text": t} for n, t in enumerate(texts)))),
    )
    names = ["bm25", "knrm", "dirichlet", "bm25_arguments", "dirichlet_rm3", "vanilla_bert", "snrm"]
    systems = [flag for name in names for flag in ("--system", name)]
    flags = ["-i", str(directory), "--checkpoints", str(checkpoints_copy)]
    assert main(["rank", *flags, "-o", str(tmp_path / "runs"), *systems, "--device", "cpu"]) == 0
    docnos = {name: read_run(tmp_path / "runs" / f"aragorn-{name}.txt")["docno"].tolist() for name in names}
    assert set(docnos["bm25"]) == set(docnos["knrm"]) == set(docnos["dirichlet"]) == {"0", "3", "4", "6"}


@pytest.mark.parametrize("system", ["bm25", "knrm", "dirichlet", "snrm"])
def test_systems_reject_empty_collection(
    system: str, tmp_path: Path, checkpoints_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "blank").mkdir()
    directory = str(write(tmp_path / "blank", **tirex(documents=lines({"docno": 1, "text": ""}, {"docno": 2, "text": " "}))))
    flags = ["-i", directory, "--checkpoints", str(checkpoints_copy), "--system", system, "--device", "cpu"]
    for work in ([], ["--cache-dir", str(tmp_path / "work")], ["--cache-dir", str(tmp_path / "work")]):
        assert main(["rank", *flags, *work, "-o", str(tmp_path / "runs")]) == 3
        assert "all 2 documents are empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "note"),
    [
        (
            tirex(documents=lines({"docno": "a", "text": ""}, {"docno": "b", "text": "ox"})),
            "all 2 documents in the collection, 1 of them empty",
        ),
        (
            touche(make_argument("a"), make_argument("b", premise="short")),
            "1 of 2 arguments in the collection; the others have premises of fewer than 15 words",
        ),
    ],
)
def test_check_reports_collection_size(
    files: dict[str, str], note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-i", str(write(tmp_path, **files)), "--checkpoints", str(tmp_path / "none")]) == 0
    assert f"NOTE   {note}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "messages"),
    [
        (
            json_lines({"id": "x"}, HUB, "{}", {**HUB, "conclusion": NAN}),
            ["jsonl, line 1 (id x): Object", "jsonl, line 3: Object", "jsonl, line 4 (id a): conclusion is NaN"],
        ),
        (
            touche({**make_argument("a"), "x": [INFINITY, NAN]}, make_argument("c"), {"id": "b"}),
            ["argument 1 (id a): x[0] is Infinity", "argument 1 (id a): x[1] is NaN", "argument 3 (id b): Object missing"],
        ),
        (touche(make_argument("a"), {**make_argument("b"), "id": NAN}), ["argument 2: id is NaN"]),
        (
            {"topics_xml": TOPICS.format(1), "args__me_json": '{"arguments": [{"id": "a"x", "conclusion": "b, NaN, c"}]}'},
            ["argument 1, line 1, column 26: malformed JSON"],
        ),
        (
            {"topics_xml": TOPICS.format(1), "args__me_json": '{"arguments": [{"id": NaN}, {"id": "b", "conclusion": "NaN, '},
            ["argument 1: id is NaN", "argument 2, line 1, column 61: malformed JSON"],
        ),
    ],
)
def test_check_lists_all_errors(
    files: dict[str, str], messages: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-i", str(write(tmp_path, **files)), "--checkpoints", str(tmp_path / "none")]) == 3
    errors = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ERROR")]
    assert len(errors) == len(messages), errors
    assert all(message in line for message, line in zip(messages, errors, strict=True)), errors


def test_topics_from_json_lines(tmp_path: Path) -> None:
    context = {"topic": "zoos", "discussionTitle": "Should zoos be closed?"}
    file = tmp_path / "args-me.jsonl"
    file.write_text(lines({**make_argument("a"), "context": context}, HUB | {"id": "b"}))
    assert read_topics([file]) == {"a": "zoos", "b": ""}
    assert read_debate_titles([file]) == ["Should zoos be closed?"]
    assert [record["id"] for record in decode_arguments(dict, file)] == ["a", "b"]
