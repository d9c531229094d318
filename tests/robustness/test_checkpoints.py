"""Tests that damaged checkpoints, and invalid ones with correct hashes, are rejected with a message that names them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import iter_components
from tests.conftest import update_hash
from tests.robustness.harness import DEEP, Program, link_to_zero, write

Change = Callable[[Path], object]


def replace_file(name: str, content: str | bytes) -> Change:
    """Return a function that replaces a file and updates its hash."""

    def change(folder: Path) -> None:
        write(folder / name, content)
        if name != "provenance.json":
            update_hash(folder, name)

    return change


def set_value(name: str, path: tuple[str | int, ...], value: Any) -> Change:
    """Return a function that sets a value in a JSON file, or deletes it if `value` is ..., and updates the hash of the file."""

    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        if value is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = value
        replace_file(name, json.dumps(content))(folder)

    return change


def edit_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    """Return a function that applies `change` to the weights and updates their hash."""

    def change_weights(folder: Path) -> None:
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        change(tensors)
        replace_file("model.safetensors", safetensors.torch.save(tensors))(folder)

    return change_weights


CASES: dict[str, Change] = {
    **{
        f"{file}: {name}": replace_file(file, content)
        for file in ("config.json", "probe.json", "provenance.json")
        for name, content in {
            "empty": "", "a list": "[]", "an object": "{}", "null": "null", "a number": "7", "a text": '"x"', "deep": DEEP,
            "not UTF-8": b'{"\xff": 1}', "many digits": '{"version": ' + "7" * 6000 + "}", "a list of texts": '["x"]',
            "a list of lists": "[[]]", "a list of nulls": "[null]", "a list of objects": "[{}]",
        }.items()
    },
    "config: no version": set_value("config.json", ("version",), ...),
    "config: no ranker": set_value("config.json", ("ranker",), ...),
    "config: another ranker": set_value("config.json", ("ranker",), "drmm"),
    "config: an unknown ranker": set_value("config.json", ("ranker",), "knrmm"),
    "config: a ranker that is a list": set_value("config.json", ("ranker",), ["knrm"]),
    "config: an unknown field": set_value("config.json", ("more",), 1),
    "config: a text for a number": set_value("config.json", ("config", "dimensions"), "8"),
    "config: a negative number": set_value("config.json", ("config", "dimensions"), -8),
    "config: none": set_value("config.json", ("config", "dimensions"), 0),
    "config: more memory than there is": set_value("config.json", ("config", "vocabulary"), 10**15),
    "config: a number beyond 64 bits": set_value("config.json", ("config", "vocabulary"), 10**30),
    "config: lengths that are a text": set_value("config.json", ("lengths",), "long"),
    "config: a negative length": set_value("config.json", ("lengths", "premise"), -1),
    "config: an encoder that is a number": set_value("config.json", ("pretrained",), 3),
    "probe: no score": set_value("probe.json", (0, "score"), ...),
    "probe: a score that is a text": set_value("probe.json", (0, "score"), "0"),
    "probe: another score": set_value("probe.json", (0, "score"), 77.0),
    "probe: another id": set_value("probe.json", (0, "query_ids"), [1]),
    "probe: another text": set_value("probe.json", (0, "query"), "Other?"),
    "probe: a text less": set_value("probe.json", (0,), ...),
    "provenance: a hash that is a number": set_value("provenance.json", ("files", "config.json"), 7),
    "provenance: without the weights": set_value("provenance.json", ("files", "model.safetensors"), ...),
    "provenance: without the vocabulary": set_value("provenance.json", ("files", "vocabulary.txt"), ...),
    "provenance: a file elsewhere": set_value("provenance.json", ("files", "../../../etc/passwd"), "0" * 64),
    "provenance: a missing file": set_value("provenance.json", ("files", "more.json"), "0" * 64),
    "provenance: training data as a text": set_value("provenance.json", ("training_data",), "args.me"),
    "provenance: training data as a list": set_value("provenance.json", ("training_data",), {"input": ["args-me.json"]}),
    "weights: no safetensors": replace_file("model.safetensors", b"x" * 100),
    "weights: empty": replace_file("model.safetensors", b""),
    "weights: a header of 2⁶⁴ bytes": replace_file("model.safetensors", b"\xff" * 64),
    "weights: one too many": edit_weights(lambda tensors: tensors.update(more=torch.zeros(3))),
    "weights: another shape": edit_weights(lambda tensors: tensors.update({"linear.bias": torch.zeros(3)})),
    "weights: NaN": edit_weights(lambda tensors: tensors["linear.bias"].fill_(float("nan"))),
    "weights: infinite": edit_weights(lambda tensors: tensors["linear.weight"].fill_(float("inf"))),
    "weights: NaN in the last term's row": edit_weights(lambda tensors: tensors["embedding.weight"][-1].fill_(float("nan"))),
    "weights: whole numbers": edit_weights(lambda tensors: tensors.update({"linear.bias": torch.tensor([7])})),
    "vocabulary: empty": replace_file("vocabulary.txt", ""),
    "vocabulary: a term more": lambda folder: replace_file(
        "vocabulary.txt", (folder / "vocabulary.txt").read_text() + "zzz\n"
    )(folder),
    "vocabulary: a term twice": lambda folder: replace_file("vocabulary.txt", "zoos\n" * 17)(folder),
    "vocabulary: not UTF-8": replace_file("vocabulary.txt", b"\xff\n"),
    "an endless file": lambda folder: link_to_zero(folder / "vocabulary.txt"),
    "an endless provenance": lambda folder: link_to_zero(folder / "provenance.json"),
    "a file for a folder": lambda folder: (shutil.rmtree(folder / "x", ignore_errors=True), (folder / "config.json").unlink(),
                                           (folder / "config.json").mkdir()),
    "nothing": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
}  # fmt: skip


PARAMETERS = {
    "no model": (("model",), ...), "another model": (("model", "name"), "tfidf"), "no name": (("model", "name"), ...),
    "an unknown field": (("model", "nu"), 1), "a text": (("model", "mu"), "2000"), "zero": (("model", "mu"), 0),
    "negative": (("model", "mu"), -5), "NaN": (("model", "mu"), float("nan")), "infinite": (("model", "mu"), float("inf")),
    "no documents": (("expansion", "documents"), 0), "half a term": (("expansion", "terms"), 2.5),
    "more than all": (("expansion", "original"), 1.1), "feedback": (("expansion", "feedback"), "some"),
    "a stemmer": (("index", "stemmer"), "snowball"), "fields": (("index", "fields"), "title"), "a list": (("index",), []),
    "version": (("version",), ...),
}  # fmt: skip

DAMAGED = {f"knrm, {name}": ("knrm", change) for name, change in CASES.items()} | {
    f"dirichlet_rm3, {name}": ("dirichlet_rm3", set_value("config.json", *change)) for name, change in PARAMETERS.items()
}


@pytest.mark.parametrize("name", DAMAGED)
def test_invalid_checkpoints_are_rejected(program: Program, name: str) -> None:
    system, change = DAMAGED[name]
    change(program.checkpoints / system)
    code, output = program.rank(systems=(system,))
    assert code == 4, output
    assert str(program.checkpoints / system) in output
    code, output = program.check()
    assert code == 4, output
    assert "ERROR" in output
    code, output = program.rank(systems=("bm25", system))
    assert code == 6, output
    assert (program.output / "aragorn-bm25.txt").stat().st_size > 0


NAN, INFINITY = float("nan"), float("inf")
FUSIONS: dict[str, tuple[Change, str]] = {
    "members that are a text": (set_value("config.json", ("members",), "dirichlet"), "Expected `array`"),
    "a member less": (set_value("config.json", ("members", 0), ...), "fitted with the members debates, dirichlet, "),
    "a member of another name": (set_value("config.json", ("members", 0, "name"), "bm26"), "fitted with the members bm26, "),
    "a member without a name": (set_value("config.json", ("members", 0, "name"), ...), "`name`"),
    "a member whose name is a number": (set_value("config.json", ("members", 0, "name"), 7), "Expected `str`, got `int`"),
    "a member that proposes more than any lists": (set_value("config.json", ("members", 1, "best"), 1001), "`int` <= 1000"),
    "a member that proposes no number": (set_value("config.json", ("members", 1, "best"), 10**30), "best"),
    "no weight": (set_value("config.json", ("members", 0, "weight"), ...), "`weight`"),
    "a weight that is NaN": (set_value("config.json", ("members", 0, "weight"), NAN), "weight"),
    "an infinite weight": (set_value("config.json", ("members", 0, "weight"), -INFINITY), "weight"),
    "no intercept": (set_value("config.json", ("intercept",), ...), "`intercept`"),
    "a length's weight that is NaN": (set_value("config.json", ("length", "weight"), NAN), "weight"),
    "no version": (set_value("config.json", ("version",), ...), "unknown"),
    "another fingerprint of a member": (
        set_value("config.json", ("members", 2, "checkpoints", "dirichlet"), "0" * 64),
        "other checkpoints of dirichlet",
    ),
    "a checkpoint more of a member": (
        set_value("config.json", ("members", 2, "checkpoints", "knrm"), "0" * 64),
        "other checkpoints of dirichlet",
    ),
    "none of a member's checkpoints": (
        set_value("config.json", ("members", 2, "checkpoints"), {}),
        "other checkpoints of dirichlet",
    ),
    "checkpoints that are a list": (
        set_value("config.json", ("members", 1, "checkpoints"), ["dirichlet"]),
        "Expected `object`",
    ),
    "an empty file": (replace_file("config.json", ""), "incompatible with"),
    "a hash that is not the file's": (lambda folder: (folder / "config.json").write_text("{}"), "SHA-256 is not"),
    "nothing": (lambda folder: (shutil.rmtree(folder), folder.mkdir()), "missing config.json"),
}
MEMBERS: dict[str, tuple[Change, str]] = {
    "a missing member": (shutil.rmtree, "member dirichlet failed: "),
    "a member that is damaged": (replace_file("config.json", "{}"), "member dirichlet failed: "),
    "a member that has changed since the fit": (
        set_value("config.json", ("model", "mu"), 1234.5), "other checkpoints of dirichlet; run `python -m training fuse`"
    ),
}  # fmt: skip


@pytest.fixture
def fused(program: Program, all_checkpoints_dir: Path) -> Program:
    """Add the fusion and its members to the checkpoints."""
    for name in {component.checkpoint for component in iter_components(SYSTEMS["fusion"].stage) if component.checkpoint}:
        shutil.copytree(all_checkpoints_dir / name, program.checkpoints / name, dirs_exist_ok=True)
    return program


def test_intact_fusion_runs(fused: Program) -> None:
    assert fused.rank(systems=("bm25", "fusion"))[0] == 0
    assert fused.check()[0] == 0


@pytest.mark.parametrize("name", [*FUSIONS, *MEMBERS])
def test_invalid_fusions_are_rejected(fused: Program, name: str) -> None:
    damaged, (change, message) = ("fusion", FUSIONS[name]) if name in FUSIONS else ("dirichlet", MEMBERS[name])
    change(fused.checkpoints / damaged)
    location = str(fused.checkpoints / "fusion") if damaged == "fusion" else "dirichlet"
    for expected, (code, output) in ((6, fused.rank(systems=("bm25", "fusion"))), (4, fused.check())):
        assert code == expected, output
        assert [text for text in (message, location) if text not in output] == []
    assert (fused.output / "aragorn-bm25.txt").stat().st_size > 0
    assert not (fused.output / "aragorn-fusion.txt").exists()


def test_systems_lists_damaged_checkpoint_as_ready(program: Program) -> None:
    (program.checkpoints / "knrm" / "config.json").write_text("")
    code, output = program.call("systems", "--checkpoints", str(program.checkpoints))
    assert code == 0
    assert "knrm           ready" in output
