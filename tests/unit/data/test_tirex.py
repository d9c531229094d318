"""Tests of TIREx data sets, of candidates to re-rank, and of runs written by an earlier stage."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.data.dataset import Dataset
from submission.data.runs import read_run
from submission.errors import InputError
from submission.systems.catalogue import CONCLUSION_BM25
from submission.systems.execution import Execution
from tests.conftest import PREMISE

QUERIES = [{"qid": "10", "query": "Is golf a sport?"}, {"qid": "2", "query": "Are zoos cruel?"}]
DOCUMENTS = [
    {"docno": "d3", "text": f"Golf is a sport. {PREMISE} golf"},
    {"docno": "d1", "text": f"Zoos are cruel. {PREMISE}"},
    {"docno": "d2", "text": "golf, short"},
    {"docno": "d4", "text": f"Taxes. {PREMISE}"},
]
CANDIDATES = [("2", "d1", 3.0), ("2", "d2", 9.5), ("10", "d3", 1.0), ("10", "d4", 1.0), ("10", "d2", -4.0)]


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def candidate_rows(rows: list[tuple[str, str, float]] = CANDIDATES) -> list[dict[str, object]]:
    queries, texts = {q["qid"]: q["query"] for q in QUERIES}, {d["docno"]: d["text"] for d in DOCUMENTS}
    ranks = {row: rank for rank, row in enumerate(sorted(rows, key=lambda row: -row[2]))}
    return [
        {
            "qid": qid,
            "query": queries[qid],
            "docno": docno,
            "text": texts[docno],
            "rank": ranks[qid, docno, score],
            "score": score,
        }
        for qid, docno, score in rows
    ]


@pytest.fixture
def dataset_dir(tmp_path: Path) -> Path:
    """Write a data set of queries and documents."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "queries.jsonl").write_text(lines(QUERIES))
    (tmp_path / "full" / "documents.jsonl.gz").write_bytes(gzip.compress(lines(DOCUMENTS).encode()))
    return tmp_path / "full"


@pytest.fixture
def reranking(tmp_path: Path) -> Path:
    """Write a data set that consists of rerank.jsonl only."""
    (tmp_path / "reranking").mkdir()
    (tmp_path / "reranking" / "rerank.jsonl.gz").write_bytes(gzip.compress(lines(candidate_rows()).encode()))
    return tmp_path / "reranking"


def rank_conclusions(execution: Execution) -> list[tuple[str, str, int]]:
    return list(execution.get_ranking(CONCLUSION_BM25)[["qid", "docno", "rank"]].itertuples(index=False, name=None))


def test_bm25_over_texts(dataset_dir: Path, make_execution: Callable[..., Execution]) -> None:
    data = Dataset(dataset_dir)
    assert data.topics.to_numpy().tolist() == [["2", "Are zoos cruel?"], ["10", "Is golf a sport?"]]
    assert data.documents["docno"].tolist() == ["d1", "d2", "d3", "d4"]
    assert make_execution(dataset_dir).documents.collection_docnos == ["d1", "d2", "d3", "d4"]  # even d2, though short
    assert ("10", "d3", 1) in rank_conclusions(make_execution(dataset_dir))
    assert data.description.endswith("conclusion and premise; each system retrieves from the collection")


def test_candidates_are_sorted_by_score(reranking: Path, make_execution: Callable[..., Execution]) -> None:
    data = Dataset(reranking)
    assert data.topics["qid"].tolist() == ["2", "10"]
    assert data.documents["premise"].tolist() == [d["text"] for d in sorted(DOCUMENTS, key=lambda d: d["docno"])]
    assert rank_conclusions(make_execution(reranking)) == [
        ("2", "d2", 1),
        ("2", "d1", 2),
        ("10", "d3", 1),
        ("10", "d4", 2),
        ("10", "d2", 3),
    ]
    assert data.description.endswith(f"re-ranking the documents of {reranking / 'rerank.jsonl.gz'}")


def test_rerank_file_overrides_retrieval(dataset_dir: Path, make_execution: Callable[..., Execution]) -> None:
    (dataset_dir / "rerank.jsonl").write_text(lines(candidate_rows(CANDIDATES[:1])))
    assert rank_conclusions(make_execution(dataset_dir)) == [("2", "d1", 1)]


@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz"])
def test_input_run_overrides_rerank_file(
    reranking: Path, tmp_path: Path, name: str, make_execution: Callable[..., Execution]
) -> None:
    run = b"10 Q0 d4 1 7.5 t\n10 Q0 d3 2 7 t\n2 Q0 d2 1 1 t\n"
    (tmp_path / name).write_bytes(gzip.compress(run) if name.endswith("gz") else run)
    for path in (tmp_path, tmp_path / name):
        data = Dataset(reranking, path)
        assert rank_conclusions(make_execution(reranking, path)) == [("2", "d2", 1), ("10", "d4", 1), ("10", "d3", 2)]
        assert data.description.endswith(f"re-ranking the documents of {tmp_path / name}")
    assert data.fingerprint != Dataset(reranking).fingerprint
    assert data.corpus_fingerprint == Dataset(reranking).corpus_fingerprint


def test_integer_ids(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"qid": 7, "query": "golf"}\n')
    (tmp_path / "documents.jsonl").write_text(lines(DOCUMENTS))
    assert Dataset(tmp_path).topics["qid"].tolist() == ["7"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("queries.jsonl", '{"qid": "1", "query": "a"}\n{"qid": "2"}\n', r"queries.jsonl, line 2 \(qid 2\): missing query"),
        (
            "queries.jsonl",
            '{"qid": "1", "query": "a"}\n{"qid": "1", "query": "b"}\n',
            "line 2: qid 1 repeated with different query \\(first in line 1\\)",
        ),
        ("queries.jsonl", '{"qid": "1", "query": " "}\n', "line 1: topic 1 has an empty query"),
        ("queries.jsonl", "", "no queries"),
        ("queries.jsonl", '{"qid": "1 2", "query": "a"}\n', "line 1: qid is '1 2'"),
        ("queries.jsonl", "\udcff", "line 1"),
        ("documents.jsonl.gz", "not gzip", "damaged gzip file"),
        (
            "documents.jsonl",
            '{"docno": "d", "text": "a"}\n{"docno": "d", "text": "b"}\n',
            "line 2: docno d repeated with different text",
        ),
        ("rerank.jsonl", lines(candidate_rows([*CANDIDATES, CANDIDATES[0]])), "duplicate document d1 in topic 2"),
        (
            "rerank.jsonl",
            lines(candidate_rows()).replace('"d1"', '"d9"'),
            r"1 of 4 documents is not in the input \(first: d9\)",
        ),
        ("rerank.jsonl", lines(candidate_rows()).replace("9.5", "1e999"), "line 2: Number out of range"),
    ],
)
def test_errors_name_file_and_line_or_id(
    dataset_dir: Path, file: str, content: str, message: str, make_execution: Callable[..., Execution]
) -> None:
    (dataset_dir / f"{file}.gz").unlink(missing_ok=True)
    (dataset_dir / file).write_text(content, errors="surrogateescape")
    execution = make_execution(dataset_dir)
    with pytest.raises(InputError, match=message):
        _ = execution.topics, execution.input.documents, execution.get_ranking(CONCLUSION_BM25)


def test_missing_files_are_named(dataset_dir: Path, reranking: Path, tmp_path: Path) -> None:
    (dataset_dir / "queries.jsonl").unlink()
    with pytest.raises(InputError, match=r"no queries\.jsonl found"):
        Dataset(dataset_dir)
    with pytest.raises(InputError, match="no run found; expected"):
        Dataset(reranking, tmp_path)


@pytest.mark.parametrize("format_name", ["full", "reranking"])
def test_systems_rank_and_rerank(
    format_name: str,
    dataset_dir: Path,
    reranking: Path,
    checkpoints: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    make_execution: Callable[..., Execution],
) -> None:
    directory = {"full": dataset_dir, "reranking": reranking}[format_name]
    (tmp_path / "run.txt").write_text("10 Q0 d4 1 7.5 t\n10 Q0 d2 2 7 t\n2 Q0 d1 1 1 t\n")
    caplog.set_level("INFO")
    flags = ["-i", str(directory), "--checkpoints", str(checkpoints), "--system", "knrm", "--system", "bm25", "--device", "cpu"]
    assert main(["rank", *flags, "-o", str(tmp_path / "o")]) == 0
    run = read_run(tmp_path / "o" / "aragorn-knrm.txt")
    assert set(zip(run["qid"], run["docno"], strict=True)) == {pair[:2] for pair in rank_conclusions(make_execution(directory))}
    assert "text is used as conclusion and premise" in caplog.text
    monkeypatch.setenv("inputRun", str(tmp_path))
    assert main(["rank", *flags, "-o", str(tmp_path / "of-run")]) == 0
    run = read_run(tmp_path / "of-run" / "aragorn-bm25.txt")
    assert run["docno"].tolist() == ["d1", "d4", "d2"]
    assert main(["check", "-i", str(directory), "--checkpoints", str(checkpoints)]) == 0


@pytest.mark.parametrize("is_cached", [False, True])
def test_empty_texts_are_reranked_but_not_retrieved(
    is_cached: bool, dataset_dir: Path, checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dataset_dir / "documents.jsonl.gz").write_bytes(
        gzip.compress(lines([{"docno": d["docno"], "text": " "} for d in DOCUMENTS]).encode())
    )
    flags = ["-i", str(dataset_dir), "--checkpoints", str(checkpoints)]
    cache_flags = ["--cache-dir", str(tmp_path / "work")] if is_cached else []
    rank = ["rank", *flags, "--device", "cpu", *cache_flags]
    assert main([*rank, "-o", str(tmp_path / "none")]) == 3
    assert "all 4 documents are empty" in capsys.readouterr().err
    assert main(["check", *flags]) == 3
    assert "ERROR  all 4 documents are empty" in capsys.readouterr().out
    (dataset_dir / "rerank.jsonl").write_text(lines([{**row, "text": "short"} for row in candidate_rows()]))
    for output in ("first", "second"):
        assert main([*rank, "-o", str(tmp_path / output)]) == 0
        assert len(read_run(tmp_path / output / "aragorn-knrm.txt")) == len(CANDIDATES)
    assert main(["check", *flags]) == 0


def test_scores_of_candidates_are_not_explained(reranking: Path, checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["-i", str(reranking), "--checkpoints", str(checkpoints), "--qid", "2", "--docno", "d1"]
    assert main(["explain", *flags, "--system", "bm25"]) == 2
    assert "bm25: scores supplied in " in capsys.readouterr().err
    assert main(["explain", *flags, "--system", "knrm"]) == 0
