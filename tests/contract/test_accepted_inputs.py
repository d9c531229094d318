"""Tests that unusual valid inputs are read, pass `check` and lead to valid runs."""

import gzip
import json
from pathlib import Path

import pytest

from aragorn.io.dataset import Dataset
from aragorn.io.qrels import read_qrels
from aragorn.io.run_rules import find_run_issues
from aragorn.io.runs import read_run
from tests.conftest import PREMISE, argv, make_argument
from tests.contract.input_files import (
    DOCUMENTS,
    FORMATS,
    HUB,
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

BOM = b"\xef\xbb\xbf"
SYSTEMS = ("bm25", "knrm", "dirichlet_rm3")
TOO_SMALL = {"too few lines", "too few topics"}  # issues of every small run
ONE_DOCUMENT = [["a", PREMISE]]
ZOOS = [["1", "zoos"]]
BOTH = [["1", "zoos"], ["2", "golf"]]
SAMPLE_TOPICS = [["1", "Are zoos cruel?"], ["2", "golf"]]
ROOT_ELEMENT = f"<t>{TWO_TOPICS}</t>"
TWO_PREMISES = {"id": "x", "conclusion": "C", "premises": [{"text": "one"}, {"text": "two"}]}
TWO_PREMISES["more"] = [1]
# files; topics; docnos and premises
DATASETS = {
    "premises are joined": (
        touche(json.dumps({"arguments": [TWO_PREMISES, {**TWO_PREMISES, "id": "a", "premises": []}]})),
        SAMPLE_TOPICS, [["x", "one two"], ["a", ""]],
    ),
    "topics by number": (
        topics(f"<t>{TOPIC.format(10, 'B?')}<topic><num> 9 </num><title>\n Is  <i>A</i>\n right?</title></topic></t>"),
        [["9", "Is A right?"], ["10", "B?"]], [],
    ),
    "topics with attributes": (
        topics('<t><topic number="1"><title>A?</title><title>  A?</title></topic><topic num="2"><query>B</query></topic></t>'),
        [["1", "A?"], ["2", "B"]], [],
    ),
    "topics in namespaces": (
        topics(f'<t xmlns="x" xmlns:y="y">{TOPIC.format(1, "A?")}<y:topic y:num="2"><y:title>B</y:title></y:topic></t>'),
        [["1", "A?"], ["2", "B"]], [],
    ),
    "topics in UTF-16": (topics(f'<?xml version="1.0" encoding="UTF-16"?>{ROOT_ELEMENT}'.encode("utf-16")), SAMPLE_TOPICS, []),
    "gzipped lines with BOM": (touche("\ufeff" + join_lines(HUB, HUB), "idebate.jsonl.gz"), SAMPLE_TOPICS, ONE_DOCUMENT),
    "args.me next to BEIR": ({**touche_lines(HUB), "corpus.jsonl": '{"_id": "x", "text": "y"}'}, SAMPLE_TOPICS, ONE_DOCUMENT),
    "NaN as a word": (touche_lines({**HUB, "argument": "[NaN, Infinity]"}), SAMPLE_TOPICS, [["a", "[NaN, Infinity]"]]),
    "integer ids": (
        tirex('{"qid": 7, "query": "zoos"}', "".join(f'{{"docno": {n}, "text": "{n}"}}\n' for n in (0, -7, 10**19))),
        [["7", "zoos"]], [["-7", "-7"], ["0", "0"], [str(10**19), str(10**19)]],
    ),
    "field names of ir_datasets": (
        tirex('{"query_id": "q1", "text": "zoos"}', '{"doc_id": "d", "default_text": "x"}'), [["q1", "zoos"]], [["d", "x"]]
    ),
    "original fields": (
        {
            "queries.jsonl": '{"qid": "1", "query": "zoos", "original_query": {"query_id": 1.5, "text": null}}',
            "corpus.jsonl.gz": '{"docno": "d", "text": "x", "original_document": {"docno": null}}',
        },
        ZOOS, [["d", "x"]],
    ),
    "repeated with equal texts": (
        tirex(QUERIES, '{"docno": "d", "text": "x"}\n{"docno": "d", "text": "x", "title": ""}\n'), BOTH, [["d", "x"]]
    ),
    "candidate of two topics": (rerank({"docno": "d"}, {"docno": "d", "qid": "2"}), [*ZOOS, ["2", "zoos"]], [["d", "zoos"]]),
}  # fmt: skip
# suffix of the file's name; encoding of its content
ENCODINGS = {
    "gzip": (".gz", gzip.compress),
    "gzip without suffix": ("", gzip.compress),
    "BOM": ("", lambda data: BOM + data),
    "CR LF": ("", lambda data: data.replace(b"\n", b"\r\n")),
    "all in gzip": (".gz", lambda data: gzip.compress(BOM + data.replace(b"\n", b"\r\n"))),
}
UNMATCHED = {  # inputs whose topics have no term of the corpus; their rankings are empty
    "title of marks": topic(1, "?!… 😀"),
    "title of unknown words": topic(1, "quux " + "q" * 100_000),
}
MATCHED = {
    "long title": topic(1, "zoos " * 20_000),
    "one conclusion": touche(json.dumps({"arguments": [make_argument("a1"), make_argument("a2")]})),
    "empty conclusion": arguments(make_argument("x", "")),
    "unprintable premise": arguments(make_argument("x", premise="\0\x1b[2J " * 30)),
    "TIREx with BOM and blank lines": tirex(BOM + QUERIES.encode() + b"\n \n", BOM + b"\n" + DOCUMENTS.encode() + b"\n\n"),
    "score 1e300": rerank({"rank": 1, "score": 1e300}),
}  # fmt: skip
# runs; --order; order in which their documents are re-ranked
RUNS = {
    "BOM, comment and blank lines": (BOM + b"\n# a run\n1 Q0 a1 1 3.5 x\n\n", "auto", "1"),
    "ir_metadata and ranks from 0": (
        "# ir_metadata.start\n# tag: t\n# ir_metadata.end\n1 Q0 a1 0 2 t\n1 Q0 a2 1 1 t\n", "auto", "1 2"
    ),
    "ranks of 0": ("1 Q0 a1 0 1 t\n1 Q0 a2 0 3 t\n1 Q0 a3 0 2 t\n", "auto", "2 3 1"),
    "lowest scores": (format_lines("-3.4e38", "-3.4028235e38", "-3.4028235e38"), "auto", "1 2 3"),
    "equal ranks and scores": ("1 Q0 a1 1 1 t\n1 Q0 a2 1 1 t\n1 Q0 a3 1 2 t\n", "auto", "3 2 1"),
    "equal scores": ("1 Q0 a2 1 5 t\n1 Q0 a3 2 5 t\n1 Q0 a1 3 5 t\n", "auto", "2 3 1"),
    "ranks against scores": (format_lines("3.5", "-1e300", "1e300"), "rank", "1 2 3"),
    "scores against ranks": (format_lines("3.5", "-1e300", "1e300"), "score", "3 1 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", DATASETS)
def test_topics_and_documents_are_read(name, tmp_path):
    files, expected_topics, expected_documents = DATASETS[name]
    dataset = Dataset(write_files(tmp_path / "input", files))
    assert dataset.topics.to_numpy().tolist() == expected_topics
    if expected_documents:
        assert dataset.documents[["docno", "premise"]].to_numpy().tolist() == expected_documents
    assert all(type(docno) is str for docno in dataset.documents["docno"])
    ranking = dataset.get_input_run(lambda docnos: set(docnos) - set(dataset.documents["docno"]))
    assert (ranking is None) == ("rerank.jsonl" not in files)


def read_all(directory):
    """Read all that a directory contains: topics, documents, candidates, a run and qrels."""
    run = next(directory.glob("run*"), None)
    dataset = Dataset(directory, input_run=run)
    frames = [dataset.topics, dataset.documents, *map(read_qrels, directory.glob("qrels*"))]
    ranking = dataset.get_input_run(lambda docnos: set(docnos) - set(dataset.documents["docno"]))
    frames += [] if ranking is None else [ranking]
    return [frame.to_numpy().tolist() for frame in frames]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", FORMATS)
def test_all_formats_are_read_in_all_encodings(name, encoding, tmp_path):
    (files, file), (suffix, encode) = FORMATS[name], ENCODINGS[encoding]
    encoded = {**files, f"{file}{suffix}": encode(str(files[file]).encode())}
    if suffix:
        del encoded[file]
    expected = read_all(write_files(tmp_path / "plain", files))
    assert read_all(write_files(tmp_path / "encoded", encoded)) == expected


def test_ignored_files_are_named(tmp_path):
    files = {**tirex(), **touche(), "topics.xml.gz": "", ".DS_Store": "", "qrels.txt": ""}
    directory = write_files(tmp_path / "input", files)
    (directory / "folder").mkdir()
    dataset = Dataset(directory)
    assert dataset.description.endswith(
        "; ignored files: args-me.json, qrels.txt, topics.xml, topics.xml.gz"
    )


def list_issues(run):
    """List the categories of the issues of a run, except those of every small one."""
    return {issue.category for issue in find_run_issues(run, None, None)} - TOO_SMALL


@pytest.mark.parametrize("name", [*MATCHED, *UNMATCHED])
def test_unusual_inputs_are_ranked(name, tmp_path, tiny_models, call):
    directory = write_files(tmp_path / "input", (MATCHED | UNMATCHED)[name])
    flags = ["-i", directory, "--checkpoints", tiny_models]
    systems = [f"--system={system}" for system in SYSTEMS]
    code, output = call("rank", *flags, "-o", tmp_path / "out", *systems, "--device=cpu")
    assert code == 0, output
    runs = [tmp_path / "out" / f"aragorn-{system}.txt" for system in SYSTEMS]
    assert [list_issues(run) for run in runs] == [set()] * 3
    assert [bool(run.read_text()) for run in runs] == [name in MATCHED] * 3, output
    assert name in MATCHED or "its ranking is empty" in output
    assert max(len(line) for line in output.splitlines() if "WARNING" not in line) < 1500
    assert call("check", *flags)[0] == 0


@pytest.mark.parametrize("name", RUNS)
def test_unusual_runs_keep_their_order(name, tmp_path, call):
    run, order, expected = RUNS[name]
    directory = write_files(tmp_path / "input", touche())
    file = write_files(tmp_path / "run", {"run.txt": run}) / "run.txt"
    flags = ["--input-run", file, "--order", order, "--system=bm25", "--device=cpu"]
    code, output = call("rank", "-i", directory, "-o", tmp_path / "out", *flags)
    assert code == 0, output
    written = tmp_path / "out" / "run.txt"
    assert list_issues(written) == set()
    docnos = [f"a{suffix}" for suffix in expected.split()]
    assert read_run(written)["docno"].tolist() == docnos


CANDIDATES = [("2", "d1", "2.0", "3e-05"), ("2", "d2", "1", "9.5"), ("10", "d3", 3.0, 1)]
CANDIDATES += [("10", "d0", 4, 1.0), ("10", "d2", 5, "-4.0")]
BY_SCORE = [("2", "d2"), ("2", "d1"), ("10", "d3"), ("10", "d0"), ("10", "d2")]


def read_input_rows(dataset):
    ranking = dataset.get_input_run(lambda docnos: set(docnos) - set(dataset.documents["docno"]))
    ranks = ranking.groupby("qid", sort=False).cumcount() + 1
    assert ranking["rank"].tolist() == ranks.tolist()
    return list(zip(ranking["qid"], ranking["docno"], strict=True))


def test_run_precedes_candidates_and_retrieval(tmp_path):
    rows = (dict(zip(("qid", "docno", "rank", "score"), row, strict=True)) for row in CANDIDATES)
    directory = write_files(tmp_path / "input", rerank(*rows))
    dataset = Dataset(directory)
    assert read_input_rows(dataset) == BY_SCORE
    assert dataset.topics["qid"].tolist() == ["2", "10"]
    assert dataset.documents["docno"].tolist() == ["d0", "d1", "d2", "d3"]
    assert dataset.description.endswith(f"re-ranking the documents of {directory / 'rerank.jsonl'}")
    run = gzip.compress(b"10 Q0 d0 1 7.5 t\n10 Q0 d3 2 7 t\n2 Q0 d2 1 1 t\n")
    runs = write_files(tmp_path / "run", {"run.txt.gz": run})
    for path in (runs, runs / "run.txt.gz"):
        reranked = Dataset(directory, input_run=path)
        assert read_input_rows(reranked) == [("2", "d2"), ("10", "d0"), ("10", "d3")]
        assert reranked.description.endswith(f"re-ranking the documents of {runs / 'run.txt.gz'}")
    by_score = Dataset(directory, input_run=runs, order="score")
    assert len({item.fingerprint for item in (dataset, reranked, by_score)}) == 3
    assert reranked.corpus_fingerprint == dataset.corpus_fingerprint


def test_short_documents_are_retrieved(tmp_path, tiny_models, call):
    texts = ["zoos", "", " ", "topicaa", "topicaa fillera", "?", "zoos are cruel"]
    documents = join_lines(*({"docno": index, "text": text} for index, text in enumerate(texts)))
    files = tirex('{"qid": "1", "query": "topicaa zoos"}', documents)
    flags = argv("-i", write_files(tmp_path / "small", files), "-o", tmp_path / "out")
    flags += argv("--checkpoints", tiny_models, "--device cpu")
    assert call("rank", *flags, *(f"--system={system}" for system in (*SYSTEMS, "snrm")))[0] == 0
    for system in SYSTEMS:
        expected = {"0", "3", "4", "6"}
        assert set(read_run(tmp_path / "out" / f"aragorn-{system}.txt")["docno"]) == expected


@pytest.mark.parametrize("system", ["bm25", "dirichlet_rm3"])
def test_empty_texts_are_reranked_but_not_retrieved(system, tmp_path, tiny_models, call):
    blank = join_lines(*({"docno": f"d{index}", "text": " "} for index in range(2)))
    directory = write_files(tmp_path / "input", tirex(documents=blank))
    flags = argv("-i", directory, "--checkpoints", tiny_models, "--device=cpu")
    flags += argv(f"--system={system}", "--cache-dir", tmp_path / "w")
    for output in ("first", "cached"):
        code, text = call("rank", *flags, "-o", tmp_path / output)
        assert (code, "all 2 documents are empty" in text) == (3, True)
    candidates = ({"qid": "1", "docno": docno} for docno in ("d1", "d0"))
    (directory / "rerank.jsonl").write_text(join_lines(*candidates))
    assert call("rank", *flags, "-o", tmp_path / "reranked")[0] == 0
    assert sorted(read_run(tmp_path / "reranked" / "run.txt")["docno"]) == ["d0", "d1"]


def test_supplied_scores_are_not_explained(tmp_path, tiny_models, call):
    directory = write_files(tmp_path / "input", rerank({"rank": 1, "score": 1.5}))
    flags = ["-i", directory, "--checkpoints", tiny_models, "--qid=1", "--docno=d1", "--device=cpu"]
    code, output = call("explain", *flags, "--system=bm25")
    assert (code, "bm25: scores supplied in " in output) == (2, True)


@pytest.mark.parametrize("is_empty", [False, True])
def test_tira_variables_set_directories(is_empty, tmp_path, call, monkeypatch):
    write_files(tmp_path / "input", touche())
    monkeypatch.chdir(tmp_path)
    paths = {"inputDataset": "input", "outputDir": "elsewhere"}
    paths |= dict.fromkeys(("inputRun", "TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR"), "")
    for name, path in paths.items():
        monkeypatch.setenv(name, "" if is_empty else path)
    flags = ["-i", "input"] if is_empty else []
    assert call("rank", "--system=bm25", "--device=cpu", *flags)[0] == 0
    assert Path("runs" if is_empty else "elsewhere", "run.txt").exists()
