"""The worked examples of CONTRIBUTING.md: a new study runs, and a new ranker passes the tests of all
rankers."""

import os
import re
import shutil
import sys

import pytest

from aragorn.models.rankers import list_rankers
from aragorn.paths import PROJECT_DIR
from aragorn.systems.catalogue import SYSTEMS
from tests.conftest import argv, build_python_path, run_process
from tests.unit.test_readme import DRIVER

# The test files that cover all rankers, systems or recipes.
TESTS = (
    "tests/contract/test_rankers.py", "tests/contract/test_systems.py", "tests/contract/test_metadata.py",
    "tests/unit/test_architecture.py", "tests/unit/test_readme.py", "tests/unit/training/fitting/test_recipe.py",
    "tests/unit/training/report/test_cards.py",
    "tests/endtoend/test_all.py::test_graph_leads_from_the_corpus_to_all_checkpoints",
)  # fmt: skip


@pytest.mark.slow
def test_the_worked_example_passes_the_tests(tmp_path):
    copy = tmp_path / "project"
    guide = (PROJECT_DIR / "CONTRIBUTING.md").read_text()
    ignored = shutil.ignore_patterns(".git", ".venv", "work", "runs", ".ruff_cache", "__pycache__")
    shutil.copytree(PROJECT_DIR, copy, ignore=ignored, symlinks=True)
    for file, content in re.findall(r"```\w+ file=(\S+)\n(.*?)```", guide, re.DOTALL):
        (copy / file).write_text(content)
    [entry] = re.findall(r"```python\n(    .*?)```", guide, re.DOTALL)
    catalogue = copy / "submission" / "aragorn" / "systems" / "catalogue.py"
    text = catalogue.read_text()
    insertions = {
        "STAGES: dict[str, Stage] = {\n": entry,
        "DESCRIPTIONS = {\n": '    "averaged": "Averaged: mean word vectors.",\n',
    }
    for start, line in insertions.items():
        text = text.replace(start, start + line)
    catalogue.write_text(text)
    [block] = re.findall(r"```bash\n(.*?)```", guide, re.DOTALL)
    *commands, last = block.splitlines()
    assert last == "tests/run"
    [study] = re.findall(r"`(aragorn-training study [^`]*)`", guide)
    commands.append(study.replace("INPUT", "submission/aragorn/sample/input"))
    # Deselect tests of the other systems, which a new ranker does not change.
    selection = " or ".join(f"[{name} or {name}]" for name in {*SYSTEMS, *list_rankers()})
    flags = argv("-m pytest -q -p no:cacheprovider -m")
    tests = [*flags, "not slow", "-k", f"not ({selection})", *TESTS]
    for arguments in (["-c", DRIVER], tests, ["-m", "ruff", "check", "."], ["-m", "mypy"]):
        environment = os.environ | {"PYTHONPATH": build_python_path(copy)}
        command = [sys.executable, *arguments]
        done = run_process(command, input="\n".join(commands), cwd=copy, env=environment)
        assert done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert (copy / "runs" / "aragorn-averaged.txt").read_text().split()[5] == "aragorn-averaged"
    lengths = (copy / "work" / "results" / "topic_lengths.csv").read_text().splitlines()
    assert lengths[:2] == ["qid,query,words", "1,Should zoos be abolished?,4"]
