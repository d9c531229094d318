"""What computes nothing with networks imports no library of networks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SAMPLE

NETWORK_LIBRARIES = ("torch", "transformers", "openvino")
# only what builds an index imports scipy
COMMANDS = {
    "systems": (["systems"], (*NETWORK_LIBRARIES, "scipy")),
    "check": (
        ["check", "-i", str(SAMPLE), "--run", "bm25.txt", "--no-checkpoints"],
        (*NETWORK_LIBRARIES, "scipy"),
    ),
    **{
        f"rank {name}": (
            ["rank", "-i", str(SAMPLE), "-o", "out", "--system", name],
            NETWORK_LIBRARIES,
        )
        for name in ("bm25", "dirichlet", "dirichlet_rm3")
    },
    "search": (
        ["search", "-i", str(SAMPLE), "--system", "dirichlet", "zoos"],
        NETWORK_LIBRARIES,
    ),
}
PROGRAM = """
import sys

from aragorn.__main__ import main

code = main(sys.argv[2:])
print("imported:", *sorted({*sys.argv[1].split(",")} & {*sys.modules}))
sys.exit(code)
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_lexical_commands_import_no_library_of_networks(name: str, tmp_path: Path) -> None:
    arguments, libraries = COMMANDS[name]
    (tmp_path / "bm25.txt").write_text("1 Q0 S89c1bfbf-A55b19fa0 1 2.5 tag\n", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(libraries), *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stdout.splitlines()[-1:] == ["imported:"], result.stderr
