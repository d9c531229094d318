"""Tests that a component's version is raised when its results change, and is part of its keys."""

import json
from types import ModuleType

import numpy as np
import pytest

from aragorn import versions
from aragorn.inference import checkpoint
from aragorn.models import taggers
from aragorn.models.rankers import get_ranker_class, list_rankers
from aragorn.models.rankers.knrm import KNRM
from aragorn.pipeline.retrieval import iter_components
from aragorn.registry import list_module_names
from aragorn.systems import latent
from aragorn.systems.catalogue import FUSION_CANDIDATES, SYSTEMS
from aragorn.versions import list_sources
from tests.conftest import SAMPLE
from tests.result_cases import CASES, RESULTS_DIR, compute


def find_difference(actual, expected, tolerance):
    """Describe the first difference of two JSON values; "" if there is none."""
    if isinstance(actual, list) and isinstance(expected, list):
        if len(actual) != len(expected):
            return f"{len(actual)} values, expected {len(expected)}"
        pairs = zip(actual, expected, strict=True)
        return next((text for pair in pairs if (text := find_difference(*pair, tolerance))), "")
    if isinstance(actual, dict) and isinstance(expected, dict):
        if list(actual) != list(expected):
            return f"{list(actual)}, expected {list(expected)}"
        return find_difference([*actual.values()], [*expected.values()], tolerance)
    if isinstance(actual, float) and isinstance(expected, float | int):
        bound = tolerance * max(1.0, abs(expected))
        return "" if abs(actual - expected) <= bound else f"{actual}, expected {expected}"
    return "" if actual == expected else f"{actual!r}, expected {expected!r}"


@pytest.mark.parametrize("name", CASES)
def test_results_change_only_with_the_version(name):
    case = CASES[name]
    file = RESULTS_DIR / f"{name}.json"
    advice = f"run tests/run --record {name}"
    assert file.exists(), f"{name} has no recorded result: {advice}"
    recorded = json.loads(file.read_text(encoding="utf-8"))
    assert recorded["version"] == case.version, f"the version of {name} was raised: {advice}"
    difference = find_difference(compute(name), recorded["expected"], case.tolerance)
    assert not difference, f"the results of {name} changed: raise its version ({difference})"


def test_recorded_results_are_of_known_cases():
    assert {file.stem for file in RESULTS_DIR.glob("*.json")} == {*CASES}


def list_components():
    stages = [system.stage for system in SYSTEMS.values()] + [*FUSION_CANDIDATES.values()]
    return list(dict.fromkeys(part for stage in stages for part in iter_components(stage)))


def test_every_component_has_a_version_and_a_result():
    networks = [
        *map(get_ranker_class, list_rankers()),
        *map(taggers.get_tagger_class, list_module_names(taggers.__path__)),
    ]
    components = list_components()
    classes = {*networks, *map(type, components)}
    assert [cls.__name__ for cls in classes if "version" not in vars(cls)] == []
    for cls in map(type, components):
        assert cls.uses_torch == ("torch" in list_sources(cls)), cls
    modules = [item for item in list_sources(*classes) if isinstance(item, ModuleType)]
    recorded = {source for case in CASES.values() for source in case.sources}
    assert {source.__name__ for source in {*classes, *modules} - recorded} == set()


@pytest.fixture
def retrieval(make_retrieval):
    return make_retrieval(SAMPLE)


def compute_keys(retrieval):
    return {name: retrieval.compute_key(system.stage) for name, system in SYSTEMS.items()}


def test_keys_load_no_network(retrieval, monkeypatch):
    def fail(*arguments):
        raise AssertionError("a network was loaded")

    monkeypatch.setattr(checkpoint.RankerCheckpoint, "load", fail)
    monkeypatch.setattr(checkpoint, "load_checkpoint", fail)
    keys = compute_keys(retrieval)
    assert len({*keys.values()}) == len(SYSTEMS)


ENSEMBLES = {"ensemble", "ensemble_thesis"}


def test_raised_versions_change_the_keys_of_what_they_compute(retrieval, monkeypatch):
    keys = compute_keys(retrieval)
    for owner, name, expected in (
        (KNRM, "version", {"knrm", *ENSEMBLES}),
        (latent, "VERSION", {"snrm", "ensemble"}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, 2)
            raised = compute_keys(retrieval)
        assert {system for system in SYSTEMS if raised[system] != keys[system]} == expected
    assert compute_keys(retrieval) == keys


def test_keys_of_scores_contain_the_version_of_loading(retrieval, monkeypatch):
    stage = SYSTEMS["knrm"].stage
    names = []
    monkeypatch.setattr(retrieval, "open_pair_parts", lambda name, key, pairs: names.append(key))
    pairs = retrieval.rank(SYSTEMS["bm25"].stage)[["qid", "docno"]][:2]
    scores = [stage.score(retrieval, pairs)]
    monkeypatch.setattr(checkpoint, "VERSION", 2)
    scores.append(stage.score(retrieval, pairs))
    assert names[0] != names[1]
    np.testing.assert_array_equal(*scores)


def test_keys_depend_on_libraries_but_not_on_the_package(retrieval, monkeypatch):
    keys = compute_keys(retrieval)
    package = versions.hash_package()
    monkeypatch.setattr(versions, "__version__", "9.9.9")
    versions.hash_package.cache_clear()
    assert versions.hash_package() != package
    assert compute_keys(retrieval) == keys
    releases = {"torch": "2.99.0+cpu"}
    version = versions.version
    monkeypatch.setattr(versions, "version", lambda name: releases.get(name) or version(name))
    versions.get_library_version.cache_clear()
    changed = compute_keys(retrieval)
    unchanged = {name for name in SYSTEMS if changed[name] == keys[name]}
    versions.get_library_version.cache_clear()
    versions.hash_package.cache_clear()
    assert unchanged == {"bm25", "bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3"}
