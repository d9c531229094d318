"""Tests that ir-metadata.yml is valid, complete, and merged over executions."""

import json
import os
import shutil
import subprocess

import pytest
import torch
import yaml
from tira.check_format import check_format

from aragorn import __version__
from aragorn.__main__ import main
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.ir_metadata import describe_source_code
from aragorn.progress import Stopwatch
from aragorn.storage.atomic_files import sha256_file
from aragorn.storage.checkpoint_directory import read_config
from aragorn.systems.catalogue import ENSEMBLE_MEMBERS, RERANKERS, SYSTEMS
from aragorn.systems.neural import RerankStage
from aragorn.systems.weighted_sum import WeightedSum
from tests.conftest import argv, read_files


def read_metadata(directory):
    return yaml.safe_load((directory / "ir-metadata.yml").read_text())


def get_methods(metadata):
    """Map the name of each retrieval method in the metadata to its entry."""
    return {entry["name"]: entry for entry in metadata["method"]["retrieval"]}


def build_command(source, output, checkpoints):
    command = argv("rank -i", source, "-o", output, "--device cpu --team me")
    return [*command, "--checkpoints", str(checkpoints)]


@pytest.fixture
def command(corpus_with_topics, checkpoints_copy, tmp_path):
    return build_command(corpus_with_topics, tmp_path / "out", checkpoints_copy)


@pytest.fixture(scope="module")
def metadata(topics_and_corpus, all_checkpoints_dir, tmp_path_factory):
    """Rank with all systems, assert that TIRA accepts the metadata file, and return its content."""
    output = tmp_path_factory.mktemp("metadata")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARAGORN_REVISION", "abc123")
        patch.setenv("ARAGORN_SOURCE", "https://example.org/aragorn")
        patch.setenv("TIRA_DATASET_ID", "touche-task-1")
        assert main(build_command(topics_and_corpus, output, all_checkpoints_dir)) == 0
    status, message = check_format(output, "run-with-metadata")
    assert (status.name, "ir-metadata.yml is valid" in message) == ("OK", True)
    return read_metadata(output)


def test_metadata_describe_the_execution(metadata, topics_and_corpus):
    assert metadata["tag"] == metadata["method"]["name"] == "me-fusion"
    assert metadata["actor"] == {"team": "me"}
    source = metadata["implementation"]["source"]
    collection = metadata["data"]["test collection"]
    assert (source["commit"], source["repository"]) == ("abc123", "https://example.org/aragorn")
    expected = (__version__, "touche-task-1", 3)
    assert (source["version"], collection["name"], collection["topics"]) == expected
    files = ("topics.xml", "args-me.json")
    assert collection["files"] == {name: sha256_file(topics_and_corpus / name) for name in files}
    assert f"torch {torch.__version__}" in metadata["platform"]["software"]["libraries"]
    actual = metadata["platform"]["hardware"]["cpu"]["number of threads used"]
    assert actual == torch.get_num_threads()
    shared = {"hashes", "topics", "documents", "conclusion index", "conclusion retrieval"}
    shared |= {"term index", "latent index", "tokenisation"}
    enrichments = {"enrichment with deepct", "enrichment with targer_essays"}
    assert metadata["resources"]["seconds per stage"].keys() == {*shared, *SYSTEMS, *enrichments}


def test_metadata_describe_all_methods(metadata, all_checkpoints_dir):
    methods = get_methods(metadata)
    assert sorted(methods) == sorted(f"me-{name}" for name in SYSTEMS)
    actual = methods["me-gru"]["checkpoints"]
    assert actual == {"gru": load_checkpoint(all_checkpoints_dir / "gru").fingerprint}
    fingerprint = read_config(all_checkpoints_dir / "ensemble", WeightedSum).fingerprint
    ensemble = methods["me-ensemble"]
    assert set(ensemble["checkpoints"]) == {*ENSEMBLE_MEMBERS, "ensemble"}
    expected = (fingerprint, list(ENSEMBLE_MEMBERS))
    assert (ensemble["checkpoints"]["ensemble"], ensemble["interpolates"]) == expected
    reranked = {name: entry["reranks"] for name, entry in methods.items() if "reranks" in entry}
    rerankers = [name for name, system in SYSTEMS.items() if isinstance(system.stage, RerankStage)]
    assert {*RERANKERS, "gru_interaction"} <= {*rerankers}
    assert reranked == {f"me-{name}": "bm25" for name in rerankers} | {"me-tfr_bert": "dirichlet"}
    assert set(methods["me-tfr_bert"]["checkpoints"]) == {"dirichlet", "tfr_bert", "quality"}


def test_metadata_names_training_data(command, checkpoints_copy, tmp_path):
    quality = {"data": "UKPConvArgRank", "licence": "CC BY-SA"}
    sources = {
        "knrm": {"input": {"args-me.json": "12"}},
        "gru": {"input": {"idebate.json": "34"}},
        "tfr_bert": {"input": {"ants_yes.csv": "56"}, **quality},
    }
    for name, source in sources.items():
        file = checkpoints_copy / name / "provenance.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"training_data": source}))
    assert main([*command, "--system", "knrm", "--system", "tfr_bert"]) == 0
    ukp = {"licence": "CC BY-SA", "files": {"ants_yes.csv": "56"}}
    args_me = {"licence": "CC BY 4.0", "files": {"args-me.json": "12"}}
    methods = get_methods(read_metadata(tmp_path / "out"))
    assert methods["me-knrm"]["training data"] == {"args.me": args_me}
    expected = {"args.me": {**args_me, "files": {}}, "UKPConvArgRank": ukp}
    assert methods["me-tfr_bert"]["training data"] == expected
    assert main([*command, "--system", "gru"]) == 0  # merges with the metadata of the first run
    args_me["files"] = {"args-me.json": "12", "idebate.json": "34"}
    training_data = read_metadata(tmp_path / "out")["data"]["training data"]
    assert training_data == [{"name": "args.me", **args_me}, {"name": "UKPConvArgRank", **ukp}]


def test_metadata_is_merged_unless_the_input_changes(
    command, corpus_with_topics, tmp_path, capsys, caplog
):
    caplog.set_level("INFO")
    topics_file = corpus_with_topics / "topics.xml"
    assert main([*command, "--system", "knrm", "--system", "bm25"]) == 0
    old = get_methods(read_metadata(tmp_path / "out"))
    assert main([*command, "--system", "gru"]) == 0
    new = get_methods(read_metadata(tmp_path / "out"))
    assert new == {**old, "me-gru": new["me-gru"]}
    topics_file.write_text(topics_file.read_text().replace("<number>1<", "<number>9<"))
    before = read_files(tmp_path / "out")
    assert main([*command, "--system", "bm25"]) == 5
    message = "contains 4 files made with another input (me-bm25.txt, me-gru.txt"
    assert message in capsys.readouterr().err
    assert read_files(tmp_path / "out") == before
    assert main([*command, "--system", "bm25", "--overwrite"]) == 0
    assert "removing outdated files: me-bm25.txt, me-gru.txt" in caplog.text
    assert [*get_methods(read_metadata(tmp_path / "out"))] == ["me-bm25"]


def test_metadata_follow_the_primary_run_and_runs_written_again(command, tmp_path):
    output = tmp_path / "out"
    for system in ("bm25", "knrm", "bm25"):
        assert main([*command, "--system", system]) == 0
        metadata = read_metadata(output)
        assert (metadata["tag"], metadata["method"]["name"]) == (f"me-{system}", f"me-{system}")
    (output / "me-bm25.txt").unlink()
    assert main([*command, "--system", "bm25", "--quiet"]) == 0
    assert read_metadata(output)["implementation"]["executable"]["cmd"].endswith("--quiet")


def test_metadata_of_an_input_run(command, corpus_with_topics, tmp_path):
    (tmp_path / "run.txt").write_text("1 Q0 a3-0 1 2.0 x\n1 Q0 a5-1 2 1.0 x\n")
    systems = [f"--system={name}" for name in ("bm25", "knrm", "dirichlet", "tfr_bert")]
    assert main([*command, "--input-run", str(tmp_path / "run.txt"), *systems]) == 0
    metadata = read_metadata(tmp_path / "out")
    assert metadata["data"]["test collection"]["source"].endswith(
        f"re-ranking the documents of {tmp_path / 'run.txt'}"
    )
    methods = get_methods(metadata)
    assert methods["me-bm25"]["ranks"] == "the ranking in run.txt, unchanged"
    expected = {"the documents in run.txt"}
    assert {entry["ranks"] for name, entry in methods.items() if name != "me-bm25"} == expected


REMOTES = {  # repository in the metadata by URL of the clone's remote
    "https://user:p@ss@example.org/a.git": "https://example.org/a.git",
    "https://token@example.org/a?private_token=b": "https://example.org/a",
    "ssh://git:password@example.org:22/a": "ssh://example.org:22/a",
    "git@example.org:a/b.git": "git@example.org:a/b.git",
    "/srv/C#/a b": None,
    "file:///srv/a": None,
}


def git(clone, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email="]
    return subprocess.check_output(["git", "-C", clone, *identity, *arguments], text=True)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Make a directory with a committed file the project's, and return it."""
    for name in ("ARAGORN_SOURCE", "ARAGORN_REVISION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("aragorn.ir_metadata.PROJECT_DIR", tmp_path)
    (tmp_path / "file").write_text("first")
    for arguments in (["init", "-q"], ["add", "file"], ["commit", "-qm", "first"]):
        git(tmp_path, *arguments)
    return tmp_path


@pytest.mark.parametrize("remote", [*REMOTES, None])
def test_clone_is_named_by_remote_and_commit(remote, clone, monkeypatch):
    unknown = {"commit": "unknown"}
    (clone / ".git").rename(clone / "git")
    assert describe_source_code() == unknown  # no repository
    git(clone, "init", "-q")
    assert describe_source_code() == unknown  # nothing is committed
    shutil.rmtree(clone / ".git")
    (clone / "git").rename(clone / ".git")
    git(clone, "tag", "v1")
    if remote:
        git(clone, "remote", "add", "upstream", remote)
    commit = git(clone, "rev-parse", "HEAD").strip()
    repository = REMOTES.get(remote)
    expected = ({"repository": repository} if repository else {}) | {"commit": commit}
    assert describe_source_code() == expected
    (clone / "file").write_text("second")
    assert describe_source_code() == {**expected, "commit": f"{commit}-dirty"}
    monkeypatch.setenv("PATH", "")
    assert describe_source_code() == unknown


GIT_VARIABLES = {"GIT_INDEX_FILE": "/nowhere/index"}  # in a hook
GIT_VARIABLES |= dict.fromkeys(("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"), "/nowhere")
GIT_VARIABLES |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.worktree"}
GIT_VARIABLES |= {"GIT_CONFIG_VALUE_0": "/", "GIT_TRACE": "1", "GIT_OPTIONAL_LOCKS": "1"}


@pytest.mark.parametrize("variables", [{}, GIT_VARIABLES], ids=["none", "all"])
def test_clone_is_neither_written_nor_replaced_by_variables_of_git(variables, clone, monkeypatch):
    commit = git(clone, "rev-parse", "HEAD").strip()
    os.utime(clone / "file", (1, 1))  # the index has another time, so `git status` would rewrite it
    index = clone / ".git/index"
    state = index.stat().st_ino, index.stat().st_mtime_ns, index.read_bytes()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert describe_source_code()["commit"] == commit
    assert (index.stat().st_ino, index.stat().st_mtime_ns, index.read_bytes()) == state


def test_programs_configured_for_the_clone_are_not_run(clone, tmp_path_factory):
    commit = git(clone, "rev-parse", "HEAD").strip()
    directory = tmp_path_factory.mktemp("programs")
    program = directory / "program"
    program.write_text(f"#!/bin/sh\ntouch '{directory}/run'\ncat\n")
    program.chmod(0o755)
    git(clone, "config", "core.fsmonitor", program)
    for setting in ("clean", "process"):
        git(clone, "config", f"filter.theirs.{setting}", program)
    git(clone, "config", "filter.theirs.required", "true")
    (clone / ".git/info/attributes").write_text("* filter=theirs\n")
    os.utime(clone / "file", (1, 1))  # so that `git status` reads the file
    assert describe_source_code() == {"commit": commit}
    assert [*directory.iterdir()] == [program]


def test_git_that_does_not_answer_is_ended(clone, tmp_path_factory, monkeypatch):
    directory = tmp_path_factory.mktemp("bin")
    (directory / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (directory / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setattr("aragorn.ir_metadata.MAX_SECONDS", 0.05)
    assert describe_source_code() == {"commit": "unknown"}


def test_nested_stage_time_is_counted_once(monkeypatch):
    clock = iter([0.0, 1.0, 4.0, 10.0, 20.0, 21.0])
    monkeypatch.setattr("aragorn.progress.time.monotonic", lambda: next(clock))
    stopwatch = Stopwatch()
    with stopwatch.stage("outer"), stopwatch.stage("inner"):
        pass
    with stopwatch.stage("inner"):
        pass
    assert stopwatch.seconds == {"inner": 4.0, "outer": 7.0}
