"""Tests of which artifacts and runs the `rank` command recomputes after an edit of a module."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.storage import code_fingerprint
from submission.systems.catalogue import SYSTEMS
from tests.conftest import ROOT, copy_with_topics

pytestmark = pytest.mark.slow
EDIT = "", "ADDED = 1\n"  # old text and its replacement; without old text: appended
RankResult = tuple[set[str], dict[str, str]]  # computed artifacts, and cache keys of the runs
# Groups of systems.
DEEPCT = ("deepct_dirichlet", "deepct_dirichlet_rm3", "deepct_bm25_rm3")
LEXICAL = ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3", "dirichlet_thesis")
# Artifacts that depend on one model, named after their kind and the checkpoint.
QUALITY = {"ranking-qualityreranking-quality"}
FUSION = {"ranking-learnedfusion-fusion"}
ENSEMBLE = {"ranking-ensemble-ensemble"}
SBERT = {"conclusions-sbert", "vectors-sbert", "ranking-densepremise-sbert", "ranking-denseconclusion-sbert", *FUSION}
SNRM = {"index-snrm", "ranking-latent-snrm", *ENSEMBLE}


@dataclass(frozen=True)
class CachedRun:
    """A `rank` command whose cache keys are computed from a copy of the source tree."""

    source: Path
    cache_dir: Path
    command: list[str]

    def rank(self, output: str) -> RankResult:
        """Rank into a directory and return the computed artifacts and the cache keys of the runs."""
        before = {path.name for path in self.cache_dir.glob("*")}
        directory = self.cache_dir.parent / output
        assert main([*self.command, "-o", str(directory), "--cache-dir", str(self.cache_dir)]) == 0
        record = json.loads((directory / "fingerprint.json").read_text())
        computed = {path.name.rpartition("-")[0] for path in self.cache_dir.glob("*") if path.name not in before}
        return computed, {name: file["key"] for name, file in record["files"].items()}


@pytest.fixture(scope="module")
def cached_run(corpus: Path, all_checkpoints_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CachedRun]:
    directory = tmp_path_factory.mktemp("keys")
    shutil.copytree(ROOT / "submission", directory / "submission", ignore=shutil.ignore_patterns("__pycache__", "sample"))
    input_dir = copy_with_topics(corpus, directory / "input")
    command = ["rank", "-i", str(input_dir), "--checkpoints", str(all_checkpoints_dir), "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_fingerprint, "PROJECT_DIR", directory)
        code_fingerprint.clear_caches()
        yield CachedRun(directory, directory / "cache", command)
    code_fingerprint.clear_caches()


@pytest.fixture(scope="module")
def first_result(cached_run: CachedRun) -> RankResult:
    computed, keys = cached_run.rank("first")
    assert set(keys) == {"run.txt", *(f"aragorn-{name}.txt" for name in SYSTEMS)}
    assert {"documents", "conclusions", "terms", "terms-deepct", "enriched-deepct", "index-snrm", "scores-knrm"} <= computed
    return computed, keys


def rank_with_edits(cached_run: CachedRun, first_result: RankResult, *edits: tuple[str, str, str]) -> tuple[set[str], set[str]]:
    """Apply edits `(module, old, new)`, rank, undo the edits, and return the artifacts and systems that were recomputed."""
    files = {cached_run.source / "submission" / f"{module}.py": (old, new) for module, old, new in edits}
    contents = {file: file.read_text() for file in files}
    try:
        for file, (old, new) in files.items():
            assert old in contents[file], file
            file.write_text(contents[file].replace(old, new, 1) if old else contents[file] + new)
        code_fingerprint.clear_caches()
        computed, keys = cached_run.rank(f"edited-{edits[0][0].replace('/', '-')}")
    finally:
        for file, content in contents.items():
            file.write_text(content)
        code_fingerprint.clear_caches()
    runs = {name for name, key in keys.items() if key != first_result[1][name]} - {"run.txt"}
    return computed, {name.removeprefix("aragorn-").removesuffix(".txt") for name in runs}


def reranker(name: str) -> set[str]:
    """Return the artifacts of a network that re-ranks pairs."""
    return {f"scores-{name}", f"ranking-rerank-{name}"}


def lexical(*names: str) -> set[str]:
    """Return the artifacts of lexical systems."""
    return {f"ranking-lexical-{name}" for name in names}


CASES: dict[str, tuple[set[str], set[str]]] = {  # edited module → artifacts and systems that are computed again
    "models/rankers/gru": (
        {*reranker("gru"), *reranker("gru_interaction"), *ENSEMBLE}, {"gru", "gru_interaction", "ensemble"}
    ),
    "models/rankers/vanilla_bert": ({*reranker("vanilla_bert"), *ENSEMBLE}, {"vanilla_bert", "ensemble"}),
    "models/rankers/tfr_bert": ({"scores-tfr_bert", *QUALITY}, {"tfr_bert"}),
    "models/rankers/snrm": (SNRM, {"snrm", "ensemble"}), "retrieval/latent": (SNRM, {"snrm", "ensemble"}),
    "models/rankers/sbert": (SBERT, {"sbert", "fusion"}), "retrieval/dense": (SBERT, {"sbert", "fusion"}),
    "models/enrichers/deepct": ({"enriched-deepct", "terms-deepct", *lexical(*DEEPCT)}, {*DEEPCT}),
    "models/enrichers/targer": (
        {"enriched-targer_essays", "terms-targer_essays", *lexical("targer_dirichlet")}, {"targer_dirichlet"}
    ),
    "fusion/linear": (FUSION, {"fusion"}), "fusion/regression": (ENSEMBLE, {"ensemble"}),
    "fusion/quality": (QUALITY, {"tfr_bert"}), "systems/cluster_score": (FUSION, {"fusion"}),
    "retrieval/term_weighting": (
        {*lexical(*LEXICAL, *DEEPCT, "targer_dirichlet"), *QUALITY, *FUSION},
        {*LEXICAL[:4], *DEEPCT, "targer_dirichlet", "tfr_bert", "fusion"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("module", CASES)
def test_edits_recompute_dependent_results(cached_run: CachedRun, first_result: RankResult, module: str) -> None:
    assert rank_with_edits(cached_run, first_result, (module, *EDIT)) == CASES[module]


def test_edits_of_messages_recompute_nothing(cached_run: CachedRun, first_result: RankResult) -> None:
    modules = (
        "__main__", "check", "cli", "explain", "rank", "errors", "progress", "storage/locks", "engine/ray_engine",
        "output/ir_metadata", "search/server", "systems/catalogue", "systems/explanation",
    )  # fmt: skip
    edits = [
        ("models/rankers/gru", '"""', '"""Edited. '),
        ("retrieval/term_index", 'log.info("term index: %d', 'log.info("index of terms: %d'),
        ("inference/pair_scoring", "is not finite; ", "is infinite; "),
        ("systems/lexical", "", "# a comment\n"),
    ]
    assert rank_with_edits(cached_run, first_result, *((module, *EDIT) for module in modules), *edits) == (set(), set())


@pytest.mark.parametrize("module", ["data/document_store", "data/args_me"])
def test_edits_of_corpus_readers_recompute_everything(cached_run: CachedRun, first_result: RankResult, module: str) -> None:
    assert rank_with_edits(cached_run, first_result, (module, *EDIT)) == (first_result[0], set(SYSTEMS))


def test_edits_of_the_run_writer_recompute_only_runs(cached_run: CachedRun, first_result: RankResult) -> None:
    assert rank_with_edits(cached_run, first_result, ("output/runs", *EDIT)) == (set(), set(SYSTEMS))
