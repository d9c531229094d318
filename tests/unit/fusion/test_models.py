"""Tests of fusion models of all kinds: saving and reading, formulas, fingerprints, and refusal of invalid parameters."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from submission.errors import CheckpointError
from submission.fusion.linear import LengthFeature, LinearFusion, LinearMember
from submission.fusion.quality import QualityInterpolation
from submission.fusion.regression import RegressionEnsemble, RegressionMember
from submission.storage.checkpoint_directory import CONFIG, encode_json, read_config, write_with_provenance

Keys = tuple[str | int, ...]
DIRICHLET, BM25 = LinearMember("dirichlet", {"dirichlet": "d1"}, 200, 0.25), LinearMember("bm25", {}, 0, -0.125)
KNRM = RegressionMember("knrm", {"knrm": "k1"}, 0.5, -1.0, 1.0)
GRU = RegressionMember("gru", {"gru": "g1"}, -0.125, 10.0, 20.0)
LINEAR = LinearFusion("1.1.0", 0.5, (DIRICHLET, BM25), LengthFeature(6.5, 1.0))
REGRESSION = RegressionEnsemble("1.1.0", 0.25, (KNRM, GRU))
QUALITY = QualityInterpolation("1.1.0", 20, 0.25)
FORMULAS = [
    (LINEAR, "0.500 +0.250 z(dirichlet) -0.125 z(bm25) +1.000 z(length)"),
    (REGRESSION, "0.250 +0.500 minmax(knrm) -0.125 minmax(gru)"),
    (QUALITY, "z(relevance) +0.250 z(quality), over the top 20 documents of a topic"),
]
VARIANTS: list[tuple[Any, Keys, object]] = [  # model, path of a value, another value that affects scores
    (LINEAR, ("intercept",), 0.25),
    (LINEAR, ("length",), None),
    (LINEAR, ("members", 0, "best"), 100),
    (LINEAR, ("members", 0, "checkpoints"), {}),
    (LINEAR, ("members", 1, "weight"), 0.125),
    (REGRESSION, ("intercept",), 0.5),
    (REGRESSION, ("members", 0, "checkpoints", "knrm"), "k2"),
    (REGRESSION, ("members", 1, "maximum"), 21.0),
    (QUALITY, ("documents",), 21),
    (QUALITY, ("weight",), 0.5),
]
INVALID: list[tuple[Any, Keys, object, str]] = [  # model, path of a value, invalid value, message
    (LINEAR, ("members", 0, "best"), 0, "no member adds documents"),
    (LINEAR, ("members", 1, "name"), "dirichlet", "names must be unique"),
    (LINEAR, ("members", 1, "name"), "length", "different from 'length'"),
    (REGRESSION, ("intercept",), "much", r"not loadable by version 1\.1\.0 \(ValidationError"),
    (QUALITY, ("weight",), -1, "weight"),
]


def replace_value(model: Any, path: Keys, value: object) -> Any:
    """Return the JSON config of `model` with `value` at `path`."""
    inner = config = json.loads(msgspec.json.encode(model))
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return config


def write_checkpoint(directory: Path, config: object) -> Path:
    write_with_provenance(directory, {CONFIG: encode_json(config)}, {"training_data": {"input": {}}})
    return directory


@pytest.mark.parametrize(("model", "formula"), FORMULAS)
def test_models_are_read_as_saved(model: Any, formula: str, tmp_path: Path) -> None:
    saved = read_config(write_checkpoint(tmp_path / "model", msgspec.to_builtins(model)), type(model))
    assert saved == model
    assert saved.fingerprint == model.fingerprint
    assert saved.format_formula() == formula


@pytest.mark.parametrize(("model", "path", "value"), VARIANTS)
def test_fingerprints_identify_parameters_but_not_versions(model: Any, path: Keys, value: object) -> None:
    assert msgspec.convert(replace_value(model, path, value), type(model)).fingerprint != model.fingerprint
    assert msgspec.convert(replace_value(model, ("version",), "2"), type(model)).fingerprint == model.fingerprint


@pytest.mark.parametrize(("model", "path", "value", "message"), INVALID)
def test_invalid_models_are_refused(model: Any, path: Keys, value: object, message: str, tmp_path: Path) -> None:
    directory = write_checkpoint(tmp_path / "model", replace_value(model, path, value))
    with pytest.raises(CheckpointError, match=message):
        read_config(directory, type(model))
