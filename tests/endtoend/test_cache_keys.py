"""Tests that an edit of a module makes `rank` compute again exactly the cached artifacts that depend on the module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.storage import code_fingerprint
from tests.conftest import ROOT, copy_with_topics

pytestmark = pytest.mark.slow
QUALITY, FUSION, ENSEMBLE = "ranking-qualityreranking-quality", "ranking-learnedfusion-fusion", "ranking-ensemble-ensemble"
LEXICAL = [
    f"ranking-lexical-{name}" for name in ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3", "dirichlet_thesis")
]
DEEPCT = [f"ranking-lexical-deepct_{name}" for name in ("dirichlet", "dirichlet_rm3", "bm25_rm3")]
TARGER = "ranking-lexical-targer_dirichlet"
CASES = {  # edited module → artifacts, named after their kind and checkpoint, that are computed again
    "models/rankers/gru": {
        "scores-gru", "ranking-rerank-gru", "scores-gru_interaction", "ranking-rerank-gru_interaction", ENSEMBLE
    },
    "models/rankers/tfr_bert": {"scores-tfr_bert", QUALITY},
    "models/rankers/snrm": {"index-snrm", "ranking-latent-snrm", ENSEMBLE},
    "models/rankers/sbert": {
        "vectors-sbert", "ranking-densepremise-sbert", "ranking-denseconclusion-sbert", FUSION
    },
    "models/enrichers/deepct": {"enriched-deepct", "terms-deepct", *DEEPCT},
    "models/enrichers/targer": {"enriched-targer_essays", "terms-targer_essays", TARGER},
    "fusion/linear": {FUSION}, "fusion/regression": {ENSEMBLE}, "fusion/quality": {QUALITY},
    "retrieval/term_weighting": {*LEXICAL, *DEEPCT, TARGER, QUALITY, FUSION},
    "output/runs": set(),
}  # fmt: skip
NEUTRAL_EDITS = {  # (old text, new text) of modules; without old text, the new text is appended
    **dict.fromkeys(["__main__", "check", "cli", "rank", "errors", "engine/ray_engine", "search/server"], ("", "ADDED = 1\n")),
    "models/rankers/gru": ('"""', '"""Edited. '),
    "retrieval/term_index": ('"term index: %d', '"index of terms: %d'),
    "inference/pair_scoring": ("is not finite; ", "is infinite; "),
    "systems/lexical": ("", "# a comment\n"),
}


@dataclass(frozen=True)
class CachedRun:
    """A `rank` command whose cache keys are computed from a copy of the source tree."""

    source: Path
    command: list[str]

    def rank(self) -> set[str]:
        """Rank with the cache, and return the names of the artifacts that were not in it."""
        cache_dir, output = self.source / "cache", self.source / "runs"
        before = set(cache_dir.glob("*"))
        assert main([*self.command, "-o", str(output), "--cache-dir", str(cache_dir), "--overwrite"]) == 0
        return {path.name.rpartition("-")[0] for path in set(cache_dir.glob("*")) - before}

    def rank_with_edits(self, edits: dict[str, tuple[str, str]]) -> set[str]:
        """Edit modules, rank, restore the modules, and return the names of the artifacts that were computed again."""
        contents = {self.source / "submission" / f"{module}.py": edit for module, edit in edits.items()}
        originals = {file: file.read_text() for file in contents}
        try:
            for file, (old, new) in contents.items():
                assert old in originals[file], file
                file.write_text(originals[file].replace(old, new, 1) if old else originals[file] + new)
            code_fingerprint.clear_caches()
            return self.rank()
        finally:
            for file, original in originals.items():
                file.write_text(original)
            code_fingerprint.clear_caches()


@pytest.fixture(scope="module")
def cached_run(corpus: Path, all_checkpoints_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CachedRun]:
    """Copy the source tree and rank with all systems, so that all artifacts are cached."""
    directory = tmp_path_factory.mktemp("keys")
    shutil.copytree(ROOT / "submission", directory / "submission", ignore=shutil.ignore_patterns("__pycache__", "sample"))
    input_dir = copy_with_topics(corpus, directory / "input")
    run = CachedRun(directory, ["rank", "-i", str(input_dir), "--checkpoints", str(all_checkpoints_dir), "--device", "cpu"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_fingerprint, "PROJECT_DIR", directory)
        code_fingerprint.clear_caches()
        assert {"documents", "conclusions", "terms", *(name for names in CASES.values() for name in names)} <= run.rank()
        yield run
    code_fingerprint.clear_caches()


@pytest.mark.parametrize("module", CASES)
def test_edits_recompute_only_dependent_artifacts(cached_run: CachedRun, module: str) -> None:
    assert cached_run.rank_with_edits({module: ("", "ADDED = 1\n")}) == CASES[module]


def test_edits_of_messages_recompute_nothing(cached_run: CachedRun) -> None:
    assert cached_run.rank_with_edits(NEUTRAL_EDITS) == set()


def test_edits_of_the_document_store_recompute_everything(cached_run: CachedRun) -> None:
    computed = cached_run.rank_with_edits({"data/document_store": ("", "ADDED = 1\n")})
    names = {"documents", "conclusions", "terms", *(name for names in CASES.values() for name in names)}
    assert names - {"vectors-sbert"} <= computed  # a vector's key is its text
