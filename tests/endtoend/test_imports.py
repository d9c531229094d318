"""Tests that commands without networks import no library of networks."""

import sys

from tests.conftest import SAMPLE, run_process

PROGRAM = """
import sys
from aragorn.__main__ import main
for command in sys.argv[1:]:
    main(command.split())
    print("imported:", *sorted({"torch", "transformers", "openvino", "pandas", "scipy"} & {*sys.modules}))
"""


def test_lexical_commands_import_no_library_of_networks(tmp_path):
    (tmp_path / "bm25.txt").write_text("1 Q0 S89c1bfbf-A55b19fa0 1 2.5 tag\n", encoding="utf-8")
    systems = "--system bm25 --system dirichlet --system dirichlet_rm3"
    commands = ["systems", f"check -i {SAMPLE} --run bm25.txt --no-checkpoints"]
    commands += [
        f"rank -i {SAMPLE} -o out {systems}",
        f"search -i {SAMPLE} --system dirichlet zoos",
    ]
    result = run_process([sys.executable, "-c", PROGRAM, *commands], cwd=tmp_path)
    lines = [line for line in result.stdout.splitlines() if line.startswith("imported:")]
    # in the same process, one after the other; only what builds an index imports scipy
    imported = ["", " pandas", " pandas scipy", " pandas scipy"]
    assert lines == [f"imported:{names}" for names in imported], result.stderr
