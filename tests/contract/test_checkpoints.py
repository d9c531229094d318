"""Tests that a damaged or invalid checkpoint is refused with a message that names it."""

import json
import math
import re
import shutil
from unittest.mock import Mock

import pytest
import safetensors.torch
import torch

from aragorn.errors import CheckpointError, InsufficientMemoryError
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.pipeline.retrieval import iter_components
from aragorn.pipeline.session import CheckpointStore
from aragorn.systems.catalogue import SYSTEMS
from tests.conftest import read_files, update_hash
from tests.contract.input_files import DEEP

NAN = math.nan
CHECKPOINTS = (  # one of each kind
    "knrm", "vanilla_bert", "snrm", "sbert", "deepct", "targer_essays", "dirichlet_rm3", "quality", "ensemble", "fusion",
)  # fmt: skip
COMPONENTS = {
    part.checkpoint: part for system in SYSTEMS.values() for part in iter_components(system.stage)
}


def replace_file(name, content):
    """Return a function that replaces a file of a checkpoint and updates its hash."""

    def change(directory):
        (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        if name != "provenance.json":
            update_hash(directory, name)

    return change


def set_value(name, path, value):
    """Return a function that sets the JSON value at `path`, or deletes it if `value` is ..."""

    def change(directory):
        content = json.loads((directory / name).read_text())
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        if value is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value
        replace_file(name, json.dumps(content))(directory)

    return change


def set_config(*path_and_value):
    return set_value("config.json", path_and_value[:-1], path_and_value[-1])


def edit_weights(change):
    """Return a function that applies `change` to a checkpoint's weights and updates the hash."""

    def change_weights(directory):
        tensors = safetensors.torch.load_file(directory / "model.safetensors")
        change(tensors)
        replace_file("model.safetensors", safetensors.torch.save(tensors))(directory)

    return change_weights


def add_term(directory):
    replace_file("vocabulary.txt", (directory / "vocabulary.txt").read_text() + "zzz\n")(directory)


def load(directory, checkpoint):
    return COMPONENTS[checkpoint].load_checkpoint(CheckpointStore(directory))


CONTENTS = {
    "empty": "", "a list": "[]", "an object": "{}", "null": "null", "a number": "7", "a text": '"x"', "deep": DEEP,
    "not UTF-8": b'{"\xff": 1}', "many digits": '{"version": ' + "7" * 6000 + "}", "a list of texts": '["x"]',
    "a list of lists": "[[]]", "a list of objects": "[{}]",
}  # fmt: skip


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_malformed_files_of_all_kinds_are_refused(
    checkpoint, all_checkpoints_dir, checkpoints_copy
):
    directory = checkpoints_copy / checkpoint
    original = read_files(directory)
    changes = {
        f"{file}.json is {kind}": replace_file(f"{file}.json", content)
        for file in ("config", "probe", "provenance")
        if f"{file}.json" in original
        for kind, content in CONTENTS.items()
    }
    changes |= {
        f"{name} is endless": lambda folder, name=name: (
            (folder / name).unlink(),
            (folder / name).symlink_to("/dev/zero"),
        )
        for name in original
        if name[0] != "R"
    }
    changes["no version"] = set_config("version", ...)
    changes["a wrong hash"] = lambda folder: (folder / "config.json").write_text("{}")
    changes["an empty directory"] = lambda folder: (shutil.rmtree(folder), folder.mkdir())
    for name, change in changes.items():
        change(directory)
        with pytest.raises(CheckpointError, match=re.escape(str(directory))):
            raise AssertionError(f"{name}: {load(checkpoints_copy, checkpoint)}")
        shutil.rmtree(directory)
        shutil.copytree(all_checkpoints_dir / checkpoint, directory)
    assert load(checkpoints_copy, checkpoint)


CASES = {  # checkpoint, change, and part of the message
    "knrm, an unknown ranker": ("knrm", set_config("ranker", "knrmm"), ""),
    "knrm, a list of rankers": ("knrm", set_config("ranker", ["knrm"]), "Expected `str`, got `array` - at `$.ranker`"),
    "knrm, another score": ("knrm", set_value("probe.json", (0, "score"), 77.0), ""),
    "knrm, another probe text": ("knrm", set_value("probe.json", (0, "query"), "Other?"), ""),
    "knrm, a probe less": ("knrm", set_value("probe.json", (0,), ...), ""),
    "knrm, a vocabulary without a hash": ("knrm", set_value("provenance.json", ("files", "vocabulary.txt"), ...), ""),
    "knrm, a file elsewhere": ("knrm", set_value("provenance.json", ("files", "../../../etc/passwd"), "0" * 64), ""),
    "knrm, a missing file": ("knrm", set_value("provenance.json", ("files", "more.json"), "0" * 64), ""),
    "knrm, no safetensors": ("knrm", replace_file("model.safetensors", b"x" * 100), ""),
    "knrm, an additional tensor": ("knrm", edit_weights(lambda tensors: tensors.update(more=torch.zeros(3))), ""),
    "knrm, another shape": ("knrm", edit_weights(lambda tensors: tensors.update({"linear.bias": torch.zeros(3)})), ""),
    "knrm, NaN": ("knrm", edit_weights(lambda tensors: tensors["linear.bias"].fill_(NAN)), ""),
    "knrm, NaN in the last term's row": ("knrm", edit_weights(lambda tensors: tensors["embedding.weight"][-1].fill_(NAN)), ""),
    "knrm, an additional term": ("knrm", add_term, ""),
    "knrm, a repeated term": ("knrm", replace_file("vocabulary.txt", "zoos\n" * 69), ""),
    "knrm, a vocabulary that is not UTF-8": ("knrm", replace_file("vocabulary.txt", b"\xff\n"), ""),
    "knrm, a billion kernels": ("knrm", set_config("config", "kernels", 10**9), "<= 1000 - at `$.kernels`"),
    "knrm, queries of -1 words": ("knrm", set_config("lengths", "query", -1), "$.lengths.query"),
    "knrm, 10⁷ terms": ("knrm", set_config("config", "vocabulary", 10**7), "shape (10000000, 8), which model"),
    "deepct, wide layers": ("deepct", set_config("config", "bert", "hidden_size", 32768), "which model.safetensors cannot"),
    "deepct, seven heads": ("deepct", set_config("config", "bert", "num_attention_heads", 7), "a divisor of hidden_size, 16"),
    "dirichlet_rm3, another model": ("dirichlet_rm3", set_config("model", "name", "tfidf"), ""),
    "dirichlet_rm3, an endless stemmer": ("dirichlet_rm3", set_config("index", "stemmer", "x" * 10**5), "… (100"),
    "dirichlet_rm3, subnormal": ("dirichlet_rm3", set_config("model", "mu", 1e-320), ">= 1e-09 - at `$.model.mu`"),
    "dirichlet_rm3, NaN": ("dirichlet_rm3", set_config("model", "mu", NAN), ""),
    "deepct_dirichlet": ("deepct_dirichlet", set_config("enrichment", None), "expected the terms of deepct"),
    "deepct": ("deepct", set_config("config", "pieces", 63), "pieces is 63; expected 1 to 62"),
    "fusion, a member less": ("fusion", set_config("members", 0, ...), "fitted with the members debates, dirichlet, "),
    "fusion, a member of another name": ("fusion", set_config("members", 0, "name", "bm26"), "fitted with the members bm26, "),
    "fusion, a member with line ends": ("fusion", set_config("members", 0, "name", "a\nb"), "at `$.members[0].name`"),
    "fusion, a wrong hash": ("fusion", set_config("members", 2, "checkpoints", "dirichlet", "0" * 64), "other checkpoints of"),
    "fusion, a checkpoint more": ("fusion", set_config("members", 2, "checkpoints", "knrm", "0" * 64), "other checkpoints of"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_invalid_checkpoints_are_refused(name, checkpoints_copy):
    checkpoint, change, message = CASES[name]
    change(checkpoints_copy / checkpoint)
    with pytest.raises(
        CheckpointError,
        match=f"(?s){re.escape(str(checkpoints_copy / checkpoint))}.*{re.escape(message)}",
    ):
        load(checkpoints_copy, checkpoint)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), 9), (OSError(12, "Cannot allocate memory"), 9),
        (ImportError("x.so: failed to map segment from shared object"), 9),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), 9),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), 9),
        (RuntimeError("Failed to initialize cpuinfo!"), 4), (ImportError("x.so: no such file"), 4), (AssertionError(), 4),
    ],
)  # fmt: skip
def test_causes_outside_intact_checkpoints_are_named(
    error, code, topics_and_corpus, tiny_models, tmp_path, call,
    monkeypatch
):  # fmt: skip
    def fail(*_):
        raise error

    monkeypatch.setattr(RankerCheckpoint, "run_probe", fail)
    flags = ["-i", topics_and_corpus, "--checkpoints", tiny_models]
    for command in (
        ["check"],
        ["rank", "--system=knrm", "-o", tmp_path],
        ["search", "zoos", "--system=knrm"],
    ):
        actual_code, output = call(*command, *flags)
        assert (actual_code, (str(error) or type(error).__name__) in output) == (code, True), output
        assert not re.search("damaged|written by|restore", output)
    monkeypatch.undo()
    # after the checkpoint has been loaded
    monkeypatch.setattr("aragorn.pipeline.retrieval.validate_rankings", fail)
    assert code == 4 or call("rank", "--system=knrm", "-o", tmp_path, *flags)[0] == 9


@pytest.mark.parametrize("function", ["read_regular", "sha256_file", "recover_directory"])
def test_unreadable_files_are_not_called_damaged(function, tiny_models, monkeypatch):
    error = PermissionError(13, "Permission denied", "a/file")
    monkeypatch.setattr(f"aragorn.storage.checkpoint_directory.{function}", Mock(side_effect=error))
    message = r"^a/file: cannot be read \(Permission denied\); change its permissions$"
    with pytest.raises(CheckpointError, match=message):
        load(tiny_models, "knrm")


@pytest.mark.parametrize("system", ["knrm", "sbert", "dirichlet", "targer_dirichlet"])
def test_missing_checkpoints_are_named_by_rank(system, topics_and_corpus, tmp_path, call):
    flags = ["-i", topics_and_corpus, "--checkpoints", tmp_path / "absent", "-o", tmp_path / "out"]
    code, output = call("rank", *flags, "--system", system)
    assert code == 4
    assert f"error: {tmp_path / 'absent' / system}: checkpoint not found; restore it" in output


def test_a_missing_file_of_a_checkpoint_is_named(checkpoints_copy):
    (checkpoints_copy / "knrm" / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"knrm: missing config\.json; restore"):
        CheckpointStore(checkpoints_copy).describe_network("knrm", RankerCheckpoint)


def test_checkpoint_larger_than_memory_is_named(checkpoints_copy, monkeypatch):
    def load_weights(content):
        raise MemoryError

    monkeypatch.setattr(safetensors.torch, "load", load_weights)
    with pytest.raises(InsufficientMemoryError, match=re.escape(str(checkpoints_copy / "knrm"))):
        load(checkpoints_copy, "knrm")


# checkpoint of the name: change, system that uses it, message
FAULTS = {
    "dirichlet": (
        set_config("model", "mu", 1234.5),
        "fusion",
        "other checkpoints of dirichlet; run `aragorn-training fuse",
    ),
    "drmm": (
        replace_file("probe.json", "[]"),
        "ensemble",
        "systems failed: drmm, ensemble (see the errors above)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_damage_fails_only_systems_that_use_it(
    name, topics_and_corpus, checkpoints_copy, tmp_path, call
):
    change, user, message = FAULTS[name]
    change(checkpoints_copy / name)
    paths = ["-i", topics_and_corpus, "--checkpoints", checkpoints_copy]
    output = tmp_path / "out"
    systems = [flag for system in ("bm25", name, user) for flag in ("--system", system)]
    code, text = call("rank", *paths, "-o", output, *systems)
    assert (code, message in text) == (6, True)
    runs = {file.name for file in output.glob("aragorn-*")}
    assert runs == {"aragorn-bm25.txt", *(["aragorn-dirichlet.txt"] if name == "dirichlet" else [])}
    assert call("rank", *paths, "-o", tmp_path / "alone", "--system", user)[0] == 4
    assert call("check", *paths)[0] == 4
    # files are not read
    assert f"{name:<20} ready" in call("systems", "--checkpoints", checkpoints_copy)[1]
