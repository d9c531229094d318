from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from submission.storage import code_fingerprint as module
from submission.storage.code_fingerprint import (
    EXCLUDED_MODULES,
    INDIFFERENT_MODULES,
    clear_caches,
    code_fingerprint,
    dependency_files,
    library_versions,
    module_file,
    parse_source,
    program_files,
    program_fingerprint,
)
from tests.conftest import ROOT

RANK = '"""Rank."""\nfrom submission import near\n\ndef rank():\n    """Do it."""\n    return near.one()\n'
NEAR = "import numpy as np\n\ndef one():\n    from submission.within import two\n    return two() + np.e\n"
TOY = {
    "submission/rank.py": RANK,
    "submission/near.py": NEAR,
    "submission/within.py": "def two():\n    return 2\n",
    "submission/apart.py": "def three():\n    return 3\n",
    "submission/kinds/__init__.py": "from submission.registry import names_in\nnames = names_in(__path__)\n",
    "submission/kinds/first.py": "KIND = 1\n",
}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, content in TOY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(module, "PROJECT_DIR", tmp_path)
    monkeypatch.setattr(module, "EXCLUDED_MODULES", {"submission.apart"})
    monkeypatch.setattr(module, "INDIFFERENT_MODULES", {"submission.apart", "submission.errors"})
    clear_caches()
    yield tmp_path
    clear_caches()


def changes_fingerprint(file: Path, old: str, new: str, *modules: str, shallow: tuple[str, ...] = ()) -> bool:
    """Return whether an edit of a file changes the fingerprint of `modules` or, without modules, of the program."""

    def current() -> str:
        clear_caches()
        return code_fingerprint(*modules, shallow=shallow) if modules or shallow else program_fingerprint()

    before, content = current(), file.read_text()
    assert old in content  # an empty `old` appends
    file.write_text(content.replace(old, new, 1) if old else content + new)
    after = current()
    file.write_text(content)
    assert current() == before
    return after != before


def test_docstrings_comments_and_layout_keep_the_key(toy: Path) -> None:
    rank = toy / "submission/rank.py"
    assert not changes_fingerprint(rank, '"""Rank."""', '"""Rank all documents."""')
    assert not changes_fingerprint(rank, '"""Rank."""', "# no docstring at all")
    assert not changes_fingerprint(rank, '"""Do it."""', '"""Do it well."""  # and fast')
    assert not changes_fingerprint(rank, "\n\ndef", "\n\n\n\n\ndef")
    assert not changes_fingerprint(toy / "submission/near.py", "two() + np.e", "(two() +  # and so on\n            np.e)")


def test_imported_computations_count(toy: Path) -> None:
    for modules in ([], ["submission.rank"]):
        assert changes_fingerprint(toy / "submission/rank.py", "near.one()", "near.one() + 1", *modules)
        assert changes_fingerprint(toy / "submission/near.py", "two() + np.e", "np.e + two()", *modules)
        assert changes_fingerprint(toy / "submission/within.py", "return 2", "return 3", *modules)
        assert not changes_fingerprint(toy / "submission/apart.py", "return 3", "return 4", *modules)
    assert not changes_fingerprint(toy / "submission/rank.py", "near.one()", "near.one() + 1", "submission.near")


def test_imports_of_shallow_modules_do_not_count(toy: Path) -> None:
    near = "submission.near"
    assert changes_fingerprint(toy / "submission/near.py", "two() + np.e", "np.e + two()", "submission.rank", shallow=(near,))
    assert not changes_fingerprint(toy / "submission/within.py", "return 2", "return 3", "submission.rank", shallow=(near,))
    assert changes_fingerprint(toy / "submission/within.py", "return 2", "return 3", "submission.within", shallow=(near,))


def test_registered_modules_count_only_in_program(toy: Path) -> None:
    rank, first = toy / "submission/rank.py", toy / "submission/kinds/first.py"
    rank.write_text(f"from submission.kinds import names\n{rank.read_text()}")
    assert changes_fingerprint(first, "1", "2")
    assert not changes_fingerprint(first, "1", "2", "submission.rank")
    assert changes_fingerprint(first, "1", "2", "submission.rank", "submission.kinds.first")
    before = program_fingerprint()
    (toy / "submission/kinds/second.py").write_text("KIND = 2\n")
    clear_caches()
    assert program_fingerprint() != before


def test_library_versions_change_the_key(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(numpy: str, *modules: str) -> str:
        monkeypatch.setattr(module, "version", lambda name: numpy if name == "numpy" else "0.1.0")
        clear_caches()
        assert library_versions(dependency_files("submission.rank")) == {"numpy": numpy}
        return code_fingerprint(*modules)

    assert installed("9.9", "submission.rank") == installed("9.9+cpu", "submission.rank") != installed("9.8", "submission.rank")
    assert installed("9.9", "submission.within") == installed("9.8", "submission.within")


def test_unknown_module_raises(toy: Path) -> None:
    with pytest.raises(ValueError, match=r"submission\.nowhere: not a module of this project"):
        code_fingerprint("submission.nowhere")


# Tests of syntax within a module

SOURCE = """import argparse
import logging
from typing import TYPE_CHECKING

from submission.errors import InputError

if TYPE_CHECKING:
    from submission.near import one

log = logging.getLogger(__name__)

def read(line, issues):
    if not line:
        raise InputError(f"{line}: empty")
    assert line.strip(), "blank"
    log.info("%d characters", len(line))
    issues.append(f"{line}: too long")
    parser.add_argument("--depth", default=3, help="documents")
    with clock.stage("reading"):
        for word in track(line.split(), "reading", "words", [1]):
            yield f"{word} {parse(word, 'strict')}"
    return ParseError("bad", 3)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('f"{line}: empty"', 'f"{line!r}: nothing in it" + short(line)'),
        ('"blank"', '"only spaces"'),
        ('log.info("%d characters", len(line))', 'log.warning("%s", line)'),
        ('    log.info("%d characters", len(line))\n', ""),
        ('f"{line}: too long"', 'f"{line}: longer than allowed"'),
        ('help="documents"', 'help="number of documents", metavar="N"'),
        ('stage("reading")', 'stage("splitting")'),
        ('"reading", "words"', '"splitting", f"{1}"'),
        ('"bad", 3', '"worse", 3'),
        ("import InputError", "import InputError, short"),
        ("import one", "import one, two"),
        ("log = logging.getLogger(__name__)\n", ""),
    ],
)
def test_message_texts_keep_the_key(old: str, new: str) -> None:
    assert old in SOURCE
    assert parse_source(SOURCE.replace(old, new).encode()).syntax_hash == parse_source(SOURCE.encode()).syntax_hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("raise InputError", "raise ValueError"),
        ("assert line.strip()", "assert line"),
        ('log.info("%d characters", len(line))', "log.info(line := line[1:])"),
        ("issues.append", "words.append"),
        ("issues.append", "issues.remove"),
        ("default=3", "default=4"),
        ('"--depth"', '"--top"'),
        ("[1])", "[2])"),
        ('f"{word} {parse', 'f"{word}-{parse'),
        ("'strict'", "'lenient'"),
        ('"bad", 3', '"bad", 4'),
        ("import argparse", "import optparse"),
    ],
)
def test_other_changes_count(old: str, new: str) -> None:
    assert old in SOURCE
    assert parse_source(SOURCE.replace(old, new).encode()).syntax_hash != parse_source(SOURCE.encode()).syntax_hash


def test_type_checking_imports_do_not_count() -> None:
    assert "submission.near" not in parse_source(SOURCE.encode()).imports


# Tests of the modules of this project

DEPENDENCIES = {  # from modules that cache results to files on which they depend indirectly
    "submission.data.document_store": {
        "submission/data/args_me.py", "submission/data/tirex_records.py", "submission/rankings.py",
    },
    "submission.retrieval.term_index": {
        "submission/text/index_terms.py", "submission/text/normalisation.py", "submission/retrieval/sparse_matrix.py",
    },
    "submission.inference.ranker_checkpoint": {"submission/inference/checkpoint_io.py", "submission/text/vocabulary.py"},
    "submission.inference.enrichment": {"submission/inference/device.py", "submission/inference/checkpoint_io.py"},
    "training.data.pairs": {
        "training/data/seeds.py", "submission/retrieval/term_index.py", "submission/data/unsupported_formats.py",
    },
    "training.data.word_vectors": {
        "training/data/seeds.py", "submission/text/vocabulary.py", "submission/text/surface_tokens.py",
    },
    "training.studies.argument_quality.protocol": {
        "training/data/seeds.py", "training/fitting/training_loop.py", "submission/models/bert.py",
    },
    "training.sbert.students": {
        "submission/retrieval/lexical.py", "submission/retrieval/term_index.py", "submission/retrieval/term_weighting.py",
    },
    "training.studies.augmented_sbert.trial": {"training/fitting/frozen_layer_cache.py", "submission/text/normalisation.py"},
    "training.fusion.evaluation": {
        "training/evaluation/measures.py", "training/fusion/learners.py", "submission/fusion/z_scores.py",
    },
    "training.tuning.grid": {"training/evaluation/evaluate.py", "submission/retrieval/term_weighting.py"},
}  # fmt: skip


@pytest.fixture
def project_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("submission", "training"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "sample", "results"))
    monkeypatch.setattr(module, "PROJECT_DIR", tmp_path)
    clear_caches()
    yield tmp_path
    clear_caches()


@pytest.mark.parametrize("root", DEPENDENCIES)
def test_results_depend_on_indirect_imports(project_copy: Path, root: str) -> None:
    for name in DEPENDENCIES[root]:
        assert changes_fingerprint(project_copy / name, "", "ADDED = 1\n", root), name


def test_training_results_are_independent_of_systems() -> None:
    prepared = ("data.pairs", "data.word_vectors", "data.term_weighting", "data.quality", "data.tagged_documents")
    for name in (*prepared, "studies.augmented_sbert.trial", "sbert.students", "tuning.grid", "fusion.evaluation"):
        files = {file.relative_to(ROOT).as_posix() for file in dependency_files(f"training.{name}")}
        unrelated = {"training/plotting.py", "submission/systems/catalogue.py", "submission/models/rankers/knrm.py"}
        assert not files & unrelated, name
        if name in prepared:
            assert not any(file.startswith("submission/systems/") for file in files), name


def test_keys_are_equal_in_all_processes() -> None:
    code = (
        "from submission.storage.code_fingerprint import code_fingerprint, program_fingerprint\n"
        "print(program_fingerprint(), code_fingerprint('submission.systems.dense', shallow=('submission.systems.execution',)))"
    )
    command = [sys.executable, "-c", code]
    processes = [
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, cwd=ROOT, check=True, capture_output=True).stdout
        for seed in "123"
    ]
    assert len({*processes}) == 1


def test_excluded_modules_exist() -> None:
    assert all(module_file(name) for name in {*INDIFFERENT_MODULES, *module.DATA_PACKAGES, module.PROGRAM})


def test_program_has_all_networks_but_no_search() -> None:
    files = {file.relative_to(ROOT).as_posix() for file in program_files()}
    assert not files & {f"{name.replace('.', '/')}.py" for name in EXCLUDED_MODULES}
    assert not any(name.startswith(("submission/search/", "training/")) for name in files)
    for name in ("rankers", "enrichers"):
        assert {*(ROOT / "submission" / "models" / name).glob("*.py")} <= {*program_files()}
    assert len(files) > 90
