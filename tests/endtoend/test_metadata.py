"""Tests of ir-metadata.yml: validity for TIRA, retrieval methods, training data, and updates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tira.check_format import check_format

from submission import __version__
from submission.__main__ import main
from submission.fusion.regression import RegressionEnsemble
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.storage.atomic_files import sha256_file
from submission.storage.checkpoint_directory import read_config
from submission.systems.catalogue import ENSEMBLE_MEMBERS, RERANKERS, SYSTEMS
from submission.timing import Stopwatch


def read_metadata(directory: Path) -> dict[str, Any]:
    return yaml.safe_load((directory / "ir-metadata.yml").read_text())


def get_methods(metadata: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Map the names of the retrieval methods to their descriptions."""
    return {entry["name"]: entry for entry in metadata["method"]["retrieval"]}


@pytest.fixture
def command(corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path) -> list[str]:
    """Return a `rank` command with all checkpoints."""
    paths = ["-i", str(corpus_with_topics), "-o", str(tmp_path / "out"), "--checkpoints", str(checkpoints_copy)]
    return ["rank", *paths, "--device", "cpu", "--team", "me"]


def test_metadata_describes_all_methods(
    command: list[str], corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARAGORN_REVISION", "abc123")
    monkeypatch.setenv("ARAGORN_SOURCE", "https://example.org/aragorn")
    monkeypatch.setenv("TIRA_DATASET_ID", "touche-task-1")
    assert main(command) == 0
    status, message = check_format(tmp_path / "out", "run-with-metadata")
    assert (status.name, "ir-metadata.yml is valid" in message) == ("OK", True)
    metadata = read_metadata(tmp_path / "out")
    assert metadata["tag"] == metadata["method"]["name"] == "me-fusion"
    assert metadata["actor"] == {"team": "me"}
    source = metadata["implementation"]["source"]
    assert (source["commit"], source["repository"]) == ("abc123", "https://example.org/aragorn")
    assert source["version"] == __version__
    assert metadata["data"]["test collection"]["name"] == "touche-task-1"
    assert metadata["data"]["test collection"]["topics"] == 3
    assert metadata["data"]["test collection"]["files"] == {
        name: sha256_file(corpus_with_topics / name) for name in ("topics.xml", "args-me.json")
    }
    assert f"torch {torch.__version__}" in metadata["platform"]["software"]["libraries"]
    assert metadata["platform"]["hardware"]["cpu"]["number of threads used"] == torch.get_num_threads()
    assert float(metadata["resources"]["ram"]["peak"].removesuffix(" MB")) > 100
    stages = {name: float(text.removesuffix(" s")) for name, text in metadata["resources"]["seconds per stage"].items()}
    shared = {"hashes", "topics", "documents", "conclusion index", "conclusion retrieval", "term index", "tokenisation"}
    assert set(stages) == {*shared, *SYSTEMS, "enrichment with deepct", "enrichment with targer_essays"}
    methods = get_methods(metadata)
    assert sorted(methods) == sorted(f"me-{name}" for name in SYSTEMS)
    assert "checkpoints" not in methods["me-bm25"]
    assert methods["me-gru"]["checkpoints"] == {"gru": load_checkpoint(checkpoints_copy / "gru").fingerprint}
    assert set(methods["me-ensemble"]["checkpoints"]) == {*ENSEMBLE_MEMBERS, "ensemble"}
    assert (
        methods["me-ensemble"]["checkpoints"]["ensemble"]
        == read_config(checkpoints_copy / "ensemble", RegressionEnsemble).fingerprint
    )
    assert methods["me-ensemble"]["interpolates"] == list(ENSEMBLE_MEMBERS)
    bm25_rerankers = {*RERANKERS, "gru_interaction"}
    assert [name for name, entry in methods.items() if entry.get("reranks") == "bm25"] == [
        f"me-{name}" for name in SYSTEMS if name in bm25_rerankers
    ]
    assert methods["me-tfr_bert"]["reranks"] == "dirichlet"
    assert set(methods["me-tfr_bert"]["checkpoints"]) == {"dirichlet", "tfr_bert", "quality"}
    assert all("  " not in entry["description"] for entry in methods.values())


def test_metadata_names_training_data(command: list[str], checkpoints_copy: Path, tmp_path: Path) -> None:
    for name, source in (
        ("knrm", {"input": {"args-me.json": "12"}}),
        ("gru", {"input": {"idebate.json": "34"}}),
        ("tfr_bert", {"input": {"ants_yes.csv": "56"}, "data": "UKPConvArgRank", "licence": "CC BY-SA"}),
    ):
        file = checkpoints_copy / name / "provenance.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"training_data": source}))
    assert main([*command, "--system", "knrm", "--system", "tfr_bert"]) == 0
    ukp = {"licence": "CC BY-SA", "files": {"ants_yes.csv": "56"}}
    metadata = read_metadata(tmp_path / "out")
    args_me = {"licence": "CC BY 4.0", "files": {"args-me.json": "12"}}
    training_data = [{"name": "args.me", **args_me}, {"name": "UKPConvArgRank", **ukp}]
    assert metadata["data"]["training data"] == training_data
    assert get_methods(metadata)["me-knrm"]["training data"] == {"args.me": args_me}
    assert get_methods(metadata)["me-tfr_bert"]["training data"] == {"args.me": {**args_me, "files": {}}, "UKPConvArgRank": ukp}
    assert main([*command, "--system", "gru"]) == 0  # merges with the metadata of the first run
    [args_me_entry, ukp_entry] = read_metadata(tmp_path / "out")["data"]["training data"]
    assert args_me_entry == {"name": "args.me", "licence": "CC BY 4.0", "files": {"args-me.json": "12", "idebate.json": "34"}}
    assert ukp_entry == training_data[1]


DAMAGED_METADATA = (
    "method: [", "[" * 10**4, "method: {retrieval: [3]}", "method: {retrieval: {a: b}}",
    "method: {retrieval: [{name: me-bm25, training data: x}]}", "", "\0",
)  # fmt: skip


def test_metadata_is_merged_unless_the_input_changes_or_the_file_is_damaged(
    command: list[str], corpus_with_topics: Path, tmp_path: Path
) -> None:
    file = tmp_path / "out" / "ir-metadata.yml"
    assert main([*command, "--system", "knrm", "--system", "bm25"]) == 0
    first = file.read_bytes()
    assert main([*command, "--system", "knrm"]) == 0
    assert file.read_bytes() == first
    assert main([*command, "--system", "gru"]) == 0
    old, new = get_methods(yaml.safe_load(first)), get_methods(read_metadata(tmp_path / "out"))
    assert set(new) == {"me-knrm", "me-bm25", "me-gru"}
    assert (new["me-knrm"], new["me-bm25"]) == (old["me-knrm"], old["me-bm25"])
    topics_file = corpus_with_topics / "topics.xml"
    topics_file.write_text(topics_file.read_text().replace("<number>1<", "<number>9<"))
    assert main([*command, "--system", "bm25", "--overwrite"]) == 0
    assert [*get_methods(read_metadata(tmp_path / "out"))] == ["me-bm25"]
    for content in DAMAGED_METADATA:
        file.write_text(content)
        assert main([*command, "--system", "bm25"]) == 0
        assert [entry["name"] for entry in read_metadata(tmp_path / "out")["method"]["retrieval"]] == ["me-bm25"]


def test_metadata_of_an_input_run(command: list[str], corpus_with_topics: Path, tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("1 Q0 a3-0 1 2.0 x\n1 Q0 a5-1 2 1.0 x\n")
    assert main([*command, "--input-run", str(tmp_path / "run.txt")]) == 0
    metadata = read_metadata(tmp_path / "out")
    assert metadata["data"]["test collection"]["source"].endswith(f"re-ranking the documents of {tmp_path / 'run.txt'}")
    methods = get_methods(metadata)
    assert methods["me-bm25"]["ranks"] == "the ranking in run.txt, unchanged"
    assert {entry["ranks"] for name, entry in methods.items() if name != "me-bm25"} == {"the documents in run.txt"}
    assert not any("reranks" in entry for entry in methods.values())


def test_nested_stage_time_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 4.0, 10.0, 20.0, 21.0])
    monkeypatch.setattr("submission.timing.time.monotonic", lambda: next(clock))
    stopwatch = Stopwatch()
    with stopwatch.stage("outer"), stopwatch.stage("inner"):
        pass
    with stopwatch.stage("inner"):
        pass
    assert stopwatch.seconds == {"inner": 4.0, "outer": 7.0}
