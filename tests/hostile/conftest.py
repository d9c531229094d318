from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.harness import Program, write_input


@pytest.fixture
def program(tmp_path: Path, checkpoints: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Program:
    """The command line on a good input with the tiny KNRM."""
    caplog.set_level("INFO")
    program = Program(tmp_path, checkpoints, capsys, caplog.handler)
    write_input(program.input)
    return program
