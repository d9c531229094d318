"""Tests of code fingerprints: edits that change the hash of a module, modules that count, and
dependencies of results."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from aragorn.storage import code_fingerprint as module

from tests.conftest import ROOT

RANK = "from aragorn import near\n\ndef rank():\n    return near.one()\n"
NEAR = "import numpy as np\n\ndef one():\n    from aragorn.within import two\n    return two() + np.e\n"
TOY = {
    "submission/aragorn/rank.py": RANK, "submission/aragorn/near.py": NEAR,
    "submission/aragorn/within.py": "def two():\n    return 2\n",
    "submission/aragorn/apart.py": "def three():\n    return 3\n",
    "submission/aragorn/kinds/__init__.py": "from aragorn.registry import names_in\nnames = names_in(__path__)\n",
    "submission/aragorn/kinds/first.py": "KIND = 1\n",
}  # fmt: skip


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, content in TOY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(module, "SOURCE_DIRS", {"aragorn": tmp_path / "submission"})
    monkeypatch.setattr(module, "REPORTING_MODULES", {"aragorn.apart"})
    monkeypatch.setattr(module, "RESULT_NEUTRAL_MODULES", {"aragorn.apart", "aragorn.errors"})
    module.clear_caches()
    yield tmp_path
    module.clear_caches()


def changes_fingerprint(
    file: Path, old: str, new: str, *modules: str, shallow: tuple[str, ...] = ()
) -> bool:
    """Return whether replacing `old` with `new` changes the fingerprint of `modules` or, if there
    are none, of the program."""

    def compute_fingerprint() -> str:
        module.clear_caches()
        return (
            module.code_fingerprint(*modules, shallow=shallow)
            if modules
            else module.program_fingerprint()
        )

    before, content = compute_fingerprint(), file.read_text()
    assert old in content
    file.write_text(content.replace(old, new, 1))
    after = compute_fingerprint()
    file.write_text(content)
    assert compute_fingerprint() == before
    return after != before


EDITS = {
    "rank": ("near.one()", "near.one() + 1"), "near": ("two() + np.e", "np.e + two()"), "within": ("return 2", "return 3"),
    "apart": ("return 3", "return 4"),
}  # fmt: skip


@pytest.mark.parametrize(("modules", "shallow", "expected"), [
    ((), (), {"rank", "near", "within"}), (("aragorn.rank",), (), {"rank", "near", "within"}),
    (("aragorn.rank",), ("aragorn.near",), {"rank", "near"}),
    (("aragorn.within",), ("aragorn.near",), {"near", "within"}),
])  # fmt: skip
def test_imported_computations_count(
    toy: Path, modules: tuple[str, ...], shallow: tuple[str, ...], expected: set[str]
) -> None:
    edited = {
        name
        for name in EDITS
        if changes_fingerprint(
            toy / f"submission/aragorn/{name}.py", *EDITS[name], *modules, shallow=shallow
        )
    }
    assert edited == expected


def test_registered_modules_count_only_in_program(toy: Path) -> None:
    rank, first = toy / "submission/aragorn/rank.py", toy / "submission/aragorn/kinds/first.py"
    rank.write_text(f"from aragorn.kinds import names\n{rank.read_text()}")
    assert changes_fingerprint(first, "1", "2")
    assert not changes_fingerprint(first, "1", "2", "aragorn.rank")
    assert changes_fingerprint(first, "1", "2", "aragorn.rank", "aragorn.kinds.first")
    before = module.program_fingerprint()
    (toy / "submission/aragorn/kinds/second.py").write_text("KIND = 2\n")
    module.clear_caches()
    assert module.program_fingerprint() != before


def test_library_versions_change_the_fingerprint(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hash_with(numpy: str, *modules: str) -> str:
        monkeypatch.setattr(module, "version", lambda name: numpy if name == "numpy" else "0.1.0")
        module.clear_caches()
        assert module.get_library_versions(module.list_dependency_files("aragorn.rank")) == {
            "numpy": numpy
        }
        return module.code_fingerprint(*modules)

    assert (
        hash_with("9.9", "aragorn.rank")
        == hash_with("9.9+cpu", "aragorn.rank")
        != hash_with("9.8", "aragorn.rank")
    )
    assert hash_with("9.9", "aragorn.within") == hash_with("9.8", "aragorn.within")


def test_unknown_module_raises(toy: Path) -> None:
    with pytest.raises(ValueError, match=r"aragorn\.nowhere: not a module of this project"):
        module.code_fingerprint("aragorn.nowhere")


SOURCE = """import argparse
import logging
from typing import TYPE_CHECKING

from aragorn.errors import InputError

if TYPE_CHECKING:
    from aragorn.near import one

log = logging.getLogger(__name__)

def read(line, issues):
    "Read."
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

MESSAGE_EDITS = [
    ('"Read."', "# a comment"), ("    if not line", "\n\n    if not (  # empty\n        line)"),
    ('f"{line}: empty"', 'f"{line!r}: nothing in it" + short(line)'), ('"blank"', '"only spaces"'),
    ('log.info("%d characters", len(line))', 'log.warning("%s", line)'),
    ('    log.info("%d characters", len(line))\n', ""),
    ('f"{line}: too long"', 'f"{line}: longer than allowed"'),
    ('help="documents"', 'help="number of documents", metavar="N"'),
    ('stage("reading")', 'stage("splitting")'), ('"reading", "words"', '"splitting", f"{1}"'), ('"bad", 3', '"worse", 3'),
    ("import InputError", "import InputError, short"), ("import one", "import one, two"),
    ("log = logging.getLogger(__name__)\n", ""),
]  # fmt: skip
RESULT_EDITS = [
    ("raise InputError", "raise ValueError"), ("assert line.strip()", "assert line"),
    ('log.info("%d characters", len(line))', "log.info(line := line[1:])"),
    ("issues.append", "words.append"), ("issues.append", "issues.remove"),
    ("default=3", "default=4"), ('"--depth"', '"--top"'), ("[1])", "[2])"),
    ('f"{word} {parse', 'f"{word}-{parse'), ("'strict'", "'lenient'"), ('"bad", 3', '"bad", 4'),
    ("import argparse", "import optparse"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "changes_hash"),
    [*((*edit, False) for edit in MESSAGE_EDITS), *((*edit, True) for edit in RESULT_EDITS)],
)
def test_messages_keep_the_hash_and_computations_change_it(
    old: str, new: str, changes_hash: bool
) -> None:
    assert old in SOURCE
    edited, original = (
        module.parse_source(text.encode()).syntax_hash
        for text in (SOURCE.replace(old, new), SOURCE)
    )
    assert (edited != original) == changes_hash


def test_type_checking_imports_do_not_count() -> None:
    assert "aragorn.near" not in module.parse_source(SOURCE.encode()).imports


def test_prepared_data_are_independent_of_systems() -> None:
    for name in ("pairs", "word_vectors", "term_weighting", "quality", "tagged_documents"):
        files = module.list_dependency_files(f"aragorn_training.data.{name}")
        assert not any(
            file.is_relative_to(ROOT / "submission/aragorn/systems") for file in files
        ), name


def test_program_has_all_networks_but_no_search() -> None:
    files = {*module.list_program_files()}
    for name in ("rankers", "taggers"):
        assert {*(ROOT / "submission" / "aragorn" / "models" / name).glob("*.py")} <= files
    assert not files & {module.find_module_file(name) for name in module.REPORTING_MODULES}
    assert not any(
        file.is_relative_to(ROOT / name)
        for name in ("submission/aragorn/search", "training")
        for file in files
    )
