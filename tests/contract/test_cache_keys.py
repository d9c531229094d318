"""Tests that a cache key depends on all code that computes its artifact, and on no code that
affects only other systems."""

import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from aragorn.io.document_store import DocumentStore
from aragorn.retrieval.vector_store import VectorStore
from aragorn.storage import code_fingerprint as fingerprint_module
from aragorn.storage.artifact_store import ArtifactStore
from aragorn.storage.code_fingerprint import (
    RESULT_NEUTRAL_MODULES,
    code_fingerprint,
    find_module_file,
    list_dependency_files,
)
from aragorn.systems.catalogue import SYSTEMS
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.execution import SERVICES, Component, Execution

from tests.conftest import ROOT

SYSTEM_MODULES = (
    "conclusion_bm25",
    "dense",
    "enrichment",
    "execution",
    "latent",
    "lexical",
    "neural",
)
KEYING = ("io.document_store", *(f"systems.{name}" for name in SYSTEM_MODULES))
MAKERS = {
    "systems.conclusion_bm25": "load_or_build_conclusion_index", "systems.dense": "load_or_build_dense_index",
    "systems.enrichment": "enrich_collection", "systems.latent": "load_or_build_latent_index",
    "systems.lexical": "load_or_build_term_index", "systems.neural": "score_documents",
}  # fmt: skip
MakeExecution, Patch = Callable[..., Execution], pytest.MonkeyPatch


@contextmanager
def record_calls(files: set[Path]) -> Iterator[None]:
    """Add to `files` the files of `submission` whose functions are called in this thread or in
    threads that it starts."""

    def record_call(frame: Any, event: str, argument: object) -> None:
        if (
            event == "call"
            and frame.f_code.co_name != "<module>"
            and "/submission/" in frame.f_code.co_filename
        ):
            files.add(Path(frame.f_code.co_filename))

    outer = sys.getprofile(), threading.getprofile()
    sys.setprofile(record_call)
    threading.setprofile(record_call)
    try:
        yield
    finally:
        sys.setprofile(outer[0])
        threading.setprofile(outer[1])


class KeyRecorder:
    """Recorder of the files that fingerprints and cache keys depend on, and of executed files that
    an artifact's key omits."""

    def __init__(self, patch: Patch) -> None:
        self.of_hash: dict[str, set[Path]] = {}
        self.of_store: dict[Path, set[Path]] = {}
        self.neutral = {find_module_file(module) for module in (*RESULT_NEUTRAL_MODULES, *SERVICES)}
        self.unkeyed: dict[str, set[Path]] = {}
        for name in KEYING:
            patch.setattr(import_module(f"aragorn.{name}"), "code_fingerprint", self.fingerprint)
        for name, maker in MAKERS.items():
            module = import_module(f"aragorn.{name}")
            patch.setattr(module, maker, self.record_files(getattr(module, maker)))
        for open_name in ("open_collection_cache", "open_checkpoint_cache"):
            patch.setattr(Execution, open_name, self.record_key(getattr(Execution, open_name)))

    def record_key(self, open_cache: Callable[..., ArtifactStore]) -> Callable[..., ArtifactStore]:
        def open_and_record(execution: Execution, name: str, *parts: str) -> ArtifactStore:
            store = open_cache(execution, name, *parts)
            self.of_store[store.directory] = {
                *self.documents,
                *(file for part in parts for file in self.of_hash.get(part, ())),
            }
            return store

        return open_and_record

    @property
    def documents(self) -> list[Path]:
        return list_dependency_files(DocumentStore.__module__)

    def fingerprint(self, *modules: str, shallow: tuple[str, ...] = ()) -> str:
        digest = code_fingerprint(*modules, shallow=shallow)
        self.of_hash[digest] = {
            *list_dependency_files(*modules, shallow=shallow),
            *(file for name in shallow if (file := find_module_file(name))),
        }
        return digest

    def record_files(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def make_and_record(*arguments: Any, **named: Any) -> Any:
            [store] = [
                argument
                for argument in arguments
                if isinstance(argument, ArtifactStore | VectorStore)
            ]
            files: set[Path] = set()
            with record_calls(files):
                result = make(*arguments, **named)
            self.unkeyed[store.directory.name] = (
                files - self.of_store[store.directory] - self.neutral
            )
            return result

        return make_and_record


ENSEMBLES = {"ensemble", "ensemble_thesis"}
FUSIONS = {*ENSEMBLES, "fusion"}  # of many components


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in FUSIONS)) for name in SYSTEMS]
)
def test_fingerprint_covers_all_executed_code(
    name: str,
    make_execution: MakeExecution,
    topics_and_corpus: Path,
    all_checkpoints_dir: Path,
    monkeypatch: Patch,
) -> None:
    keys, files = KeyRecorder(monkeypatch), set[Path]()
    execution = make_execution(topics_and_corpus, checkpoints=all_checkpoints_dir)
    with record_calls(files):
        execution.get_ranking(SYSTEMS[name].stage)
    assert keys.unkeyed
    assert not {
        store: {str(file.relative_to(ROOT)) for file in files}
        for store, files in keys.unkeyed.items()
        if files
    }
    assert {file.name for file in files} >= {"rankings.py"}
    known = keys.neutral.union(*keys.of_hash.values())
    assert not {str(file.relative_to(ROOT)) for file in files - known}


@pytest.mark.parametrize(
    ("stage", "module"),
    [(SYSTEMS["knrm"].stage, "ranker"), (Enrichment("deepct"), "tagger")],
)
def test_scores_depend_on_the_code_that_loads_the_checkpoint(
    stage: Component,
    module: str,
    make_execution: MakeExecution,
    corpus_with_topics: Path,
    all_checkpoints_dir: Path,
    monkeypatch: Patch,
) -> None:
    execution, modules = make_execution(corpus_with_topics, checkpoints=all_checkpoints_dir), []

    def record(*names: str, shallow: tuple[str, ...] = ()) -> str:
        modules.extend(names)
        return ""

    for name in ("neural", "enrichment"):
        monkeypatch.setattr(import_module(f"aragorn.systems.{name}"), "code_fingerprint", record)
    stage.get_key_parts(execution)
    files = {file.stem for file in list_dependency_files(*modules)}
    assert f"{module}_checkpoint" in files


DEEPCT = {"deepct_dirichlet", "deepct_dirichlet_rm3", "deepct_bm25_rm3"}
DEPENDENTS = {  # systems whose cache keys depend on a module
    "models.rankers.gru": {"gru", "gru_interaction", *ENSEMBLES}, "models.rankers.vanilla_bert": {"vanilla_bert", *ENSEMBLES},
    "models.rankers.snrm": {"snrm", "ensemble"}, "retrieval.latent": {"snrm", "ensemble"},
    "models.rankers.sbert": {"sbert", "fusion"}, "retrieval.dense": {"sbert", "fusion"},
    "models.taggers.deepct": DEEPCT, "models.taggers.targer": {"targer_dirichlet"},
    "fusion.weighted_sum": {"fusion", "tfr_bert", *ENSEMBLES}, "systems.cluster_score": {"fusion"},
    "models.rankers.tfr_bert": {"tfr_bert"}, "fusion.quality": {"tfr_bert"},
    "retrieval.term_weighting": {
        "bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3", "targer_dirichlet", "tfr_bert", "fusion", *DEEPCT
    },
    "io.document_store": set(SYSTEMS), "io.touche": set(SYSTEMS),
    "check": set(), "cli": set(), "explain": set(), "rank": set(), "errors": set(), "progress": set(), "storage.locks": set(),
    "standard_streams": set(), "engine.ray_engine": set(), "output.ir_metadata": set(),
    "search.server": set(), "systems.catalogue": set(), "explanation": set(),
}  # fmt: skip


def test_keys_depend_only_on_the_code_of_the_system(
    make_execution: MakeExecution,
    corpus_with_topics: Path,
    all_checkpoints_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    execution = make_execution(corpus_with_topics, checkpoints=all_checkpoints_dir)
    hash_files, hashed, dependents = (
        fingerprint_module._hash,
        set[Path](),
        {name: set[str]() for name in DEPENDENTS},
    )

    def record(files: Collection[Path], importing: Collection[Path]) -> str:
        hashed.update(files)
        return hash_files(files, importing)

    monkeypatch.setattr(fingerprint_module, "_hash", record)
    for system in SYSTEMS.values():
        hashed.clear()
        code_fingerprint.cache_clear()
        execution.compute_cache_key(system.stage)
        for name in DEPENDENTS:
            if find_module_file(f"aragorn.{name}") in hashed:
                dependents[name].add(system.name)
    assert dependents == DEPENDENTS
