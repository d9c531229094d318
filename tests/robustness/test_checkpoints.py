"""Damaged, odd and foreign checkpoints whose hashes agree: each is refused in a line that names it."""

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
from tests.robustness.harness import DEEP, Program, endless, write

Change = Callable[[Path], object]


def text(name: str, content: str | bytes) -> Change:
    """Another file, sealed."""

    def change(folder: Path) -> None:
        write(folder / name, content)
        if name != "provenance.json":
            update_hash(folder, name)

    return change


def fields(name: str, where: tuple[str | int, ...], value: Any) -> Change:
    """Another value at a place in a JSON file; ... takes the place away."""

    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        inner = content
        for key in where[:-1]:
            inner = inner[key]
        if value is ...:
            del inner[where[-1]]
        else:
            inner[where[-1]] = value
        text(name, json.dumps(content))(folder)

    return change


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    """Other weights, sealed."""

    def changed(folder: Path) -> None:
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        change(tensors)
        text("model.safetensors", safetensors.torch.save(tensors))(folder)

    return changed


CASES: dict[str, Change] = {
    **{
        f"{file}: {name}": text(file, content)
        for file in ("config.json", "probe.json", "provenance.json")
        for name, content in {
            "empty": "", "a list": "[]", "an object": "{}", "null": "null", "a number": "7", "a text": '"x"', "deep": DEEP,
            "not UTF-8": b'{"\xff": 1}', "many digits": '{"version": ' + "7" * 6000 + "}", "a list of texts": '["x"]',
            "a list of lists": "[[]]", "a list of nulls": "[null]", "a list of objects": "[{}]",
        }.items()
    },
    "config: no version": fields("config.json", ("version",), ...),
    "config: no ranker": fields("config.json", ("ranker",), ...),
    "config: another ranker": fields("config.json", ("ranker",), "drmm"),
    "config: an unknown ranker": fields("config.json", ("ranker",), "knrmm"),
    "config: a ranker that is a list": fields("config.json", ("ranker",), ["knrm"]),
    "config: an unknown field": fields("config.json", ("more",), 1),
    "config: a text for a number": fields("config.json", ("config", "dimensions"), "8"),
    "config: a negative number": fields("config.json", ("config", "dimensions"), -8),
    "config: none": fields("config.json", ("config", "dimensions"), 0),
    "config: more memory than there is": fields("config.json", ("config", "vocabulary"), 10**15),
    "config: a number beyond 64 bits": fields("config.json", ("config", "vocabulary"), 10**30),
    "config: lengths that are a text": fields("config.json", ("lengths",), "long"),
    "config: a negative length": fields("config.json", ("lengths", "premise"), -1),
    "config: an encoder that is a number": fields("config.json", ("pretrained",), 3),
    "probe: no score": fields("probe.json", (0, "score"), ...),
    "probe: a score that is a text": fields("probe.json", (0, "score"), "0"),
    "probe: another score": fields("probe.json", (0, "score"), 77.0),
    "probe: another id": fields("probe.json", (0, "query_ids"), [1]),
    "probe: another text": fields("probe.json", (0, "query"), "Other?"),
    "probe: a text less": fields("probe.json", (0,), ...),
    "provenance: a hash that is a number": fields("provenance.json", ("files", "config.json"), 7),
    "provenance: without the weights": fields("provenance.json", ("files", "model.safetensors"), ...),
    "provenance: without the vocabulary": fields("provenance.json", ("files", "vocabulary.txt"), ...),
    "provenance: a file elsewhere": fields("provenance.json", ("files", "../../../etc/passwd"), "0" * 64),
    "provenance: a file that is not there": fields("provenance.json", ("files", "more.json"), "0" * 64),
    "provenance: trained on a text": fields("provenance.json", ("training_data",), "args.me"),
    "provenance: trained on a list": fields("provenance.json", ("training_data",), {"input": ["args-me.json"]}),
    "weights: no safetensors": text("model.safetensors", b"x" * 100),
    "weights: empty": text("model.safetensors", b""),
    "weights: a header of 2⁶⁴ bytes": text("model.safetensors", b"\xff" * 64),
    "weights: one too many": weights(lambda tensors: tensors.update(more=torch.zeros(3))),
    "weights: another shape": weights(lambda tensors: tensors.update({"linear.bias": torch.zeros(3)})),
    "weights: NaN": weights(lambda tensors: tensors["linear.bias"].fill_(float("nan"))),
    "weights: infinite": weights(lambda tensors: tensors["linear.weight"].fill_(float("inf"))),
    "weights: NaN in the last term's row": weights(lambda tensors: tensors["embedding.weight"][-1].fill_(float("nan"))),
    "weights: whole numbers": weights(lambda tensors: tensors.update({"linear.bias": torch.tensor([7])})),
    "vocabulary: empty": text("vocabulary.txt", ""),
    "vocabulary: a term more": lambda folder: text("vocabulary.txt", (folder / "vocabulary.txt").read_text() + "zzz\n")(folder),
    "vocabulary: a term twice": lambda folder: text("vocabulary.txt", "zoos\n" * 17)(folder),
    "vocabulary: not UTF-8": text("vocabulary.txt", b"\xff\n"),
    "an endless file": lambda folder: endless(folder / "vocabulary.txt"),
    "an endless provenance": lambda folder: endless(folder / "provenance.json"),
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
    f"dirichlet_rm3, {name}": ("dirichlet_rm3", fields("config.json", *change)) for name, change in PARAMETERS.items()
}


@pytest.mark.parametrize("name", DAMAGED)
def test_checkpoints_are_refused(program: Program, name: str) -> None:
    system, change = DAMAGED[name]
    change(program.checkpoints / system)
    code, said = program.rank(systems=(system,))
    assert code == 4, said
    assert str(program.checkpoints / system) in said
    code, said = program.check()
    assert code == 4, said
    assert "ERROR" in said
    code, said = program.rank(systems=("bm25", system))
    assert code == 6, said
    assert (program.output / "aragorn-bm25.txt").stat().st_size > 0


NAN, INFINITY = float("nan"), float("inf")
FUSIONS: dict[str, tuple[Change, str]] = {
    "members that are a text": (fields("config.json", ("members",), "dirichlet"), "Expected `array`"),
    "a member less": (fields("config.json", ("members", 0), ...), "fitted with the members debates, dirichlet, "),
    "a member of another name": (fields("config.json", ("members", 0, "name"), "bm26"), "fitted with the members bm26, "),
    "a member without a name": (fields("config.json", ("members", 0, "name"), ...), "`name`"),
    "a member whose name is a number": (fields("config.json", ("members", 0, "name"), 7), "Expected `str`, got `int`"),
    "a member that proposes more than any lists": (fields("config.json", ("members", 1, "best"), 1001), "`int` <= 1000"),
    "a member that proposes no number": (fields("config.json", ("members", 1, "best"), 10**30), "best"),
    "no weight": (fields("config.json", ("members", 0, "weight"), ...), "`weight`"),
    "a weight that is NaN": (fields("config.json", ("members", 0, "weight"), NAN), "weight"),
    "an infinite weight": (fields("config.json", ("members", 0, "weight"), -INFINITY), "weight"),
    "no intercept": (fields("config.json", ("intercept",), ...), "`intercept`"),
    "a length's weight that is NaN": (fields("config.json", ("length", "weight"), NAN), "weight"),
    "no version": (fields("config.json", ("version",), ...), "unknown"),
    "another fingerprint of a member": (
        fields("config.json", ("members", 2, "checkpoints", "dirichlet"), "0" * 64),
        "other checkpoints of dirichlet",
    ),
    "a checkpoint more of a member": (
        fields("config.json", ("members", 2, "checkpoints", "knrm"), "0" * 64),
        "other checkpoints of dirichlet",
    ),
    "none of a member's checkpoints": (
        fields("config.json", ("members", 2, "checkpoints"), {}),
        "other checkpoints of dirichlet",
    ),
    "checkpoints that are a list": (fields("config.json", ("members", 1, "checkpoints"), ["dirichlet"]), "Expected `object`"),
    "an empty file": (text("config.json", ""), "incompatible with"),
    "a hash that is not the file's": (lambda folder: (folder / "config.json").write_text("{}"), "SHA-256 is not"),
    "nothing": (lambda folder: (shutil.rmtree(folder), folder.mkdir()), "missing config.json"),
}
MEMBERS: dict[str, tuple[Change, str]] = {
    "a member that is not there": (shutil.rmtree, "member dirichlet failed: "),
    "a member that is damaged": (text("config.json", "{}"), "member dirichlet failed: "),
    "a member that has changed since the fit": (
        fields("config.json", ("model", "mu"), 1234.5), "other checkpoints of dirichlet; run `python -m training fuse`"
    ),
}  # fmt: skip


@pytest.fixture
def fused(program: Program, all_checkpoints_dir: Path) -> Program:
    """With the fusion and its members too."""
    for name in {part.checkpoint for part in iter_components(SYSTEMS["fusion"].stage) if part.checkpoint}:
        shutil.copytree(all_checkpoints_dir / name, program.checkpoints / name, dirs_exist_ok=True)
    return program


def test_a_fusion_that_is_as_it_was_fitted(fused: Program) -> None:
    assert fused.rank(systems=("bm25", "fusion"))[0] == 0
    assert fused.check()[0] == 0


@pytest.mark.parametrize("name", [*FUSIONS, *MEMBERS])
def test_fusions_are_refused(fused: Program, name: str) -> None:
    damaged, (change, words) = ("fusion", FUSIONS[name]) if name in FUSIONS else ("dirichlet", MEMBERS[name])
    change(fused.checkpoints / damaged)
    where = str(fused.checkpoints / "fusion") if damaged == "fusion" else "dirichlet"
    for code, (found, said) in ((6, fused.rank(systems=("bm25", "fusion"))), (4, fused.check())):
        assert found == code, said
        assert [word for word in (words, where) if word not in said] == []
    assert (fused.output / "aragorn-bm25.txt").stat().st_size > 0
    assert not (fused.output / "aragorn-fusion.txt").exists()


def test_systems_says_of_a_damaged_one_that_it_is_there(program: Program) -> None:
    (program.checkpoints / "knrm" / "config.json").write_text("")
    code, said = program.call("systems", "--checkpoints", str(program.checkpoints))
    assert code == 0
    assert "knrm           ready" in said
