from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.retrieval.lexical import RM3, Dirichlet
from submission.systems import catalogue
from tests.conftest import copy_with_topics, write_lexical, write_tiny_ranker
from tests.robustness.harness import Program, write_input


@pytest.fixture
def program(tmp_path: Path, checkpoints: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Program:
    """Return a program with a valid input and the checkpoints of a tiny KNRM and of query likelihood with RM3."""
    write_lexical(checkpoints, "dirichlet_rm3", Dirichlet(), RM3(max_df_ratio=1.0))
    caplog.set_level("INFO")
    program = Program(tmp_path, checkpoints, capsys, caplog.handler)
    write_input(program.input)
    return program


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rank an input with all systems; return the directory of `input`, `checkpoints`, `out` and the cache `work`."""
    directory = tmp_path_factory.mktemp("finished")
    copy_with_topics(corpus, directory / "input")
    for seed, name in enumerate(("knrm", "snrm")):
        write_tiny_ranker(directory / "checkpoints", name, seed)
    write_lexical(directory / "checkpoints", "dirichlet_rm3", Dirichlet(), RM3(max_df_ratio=1.0))
    flags = ["-i", "input", "-o", "out", "--cache-dir", "work", "--checkpoints", "checkpoints"]
    names = {"input", "out", "work", "checkpoints"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "PRIMARY_SYSTEM", "knrm")
        assert main(["rank", *(str(directory / flag) if flag in names else flag for flag in flags), "--device", "cpu"]) == 0
    assert all((directory / "out" / f"aragorn-{name}.txt").stat().st_size > 500 for name in ("knrm", "snrm"))
    return directory


@pytest.fixture
def finished_program(program: Program, finished: Path) -> Program:
    """Return a program with the input and checkpoints of `finished` and copies of its output and cache."""
    program.input, program.checkpoints = finished / "input", finished / "checkpoints"
    shutil.copytree(finished / "out", program.output)
    shutil.copytree(finished / "work", program.work)
    return program
