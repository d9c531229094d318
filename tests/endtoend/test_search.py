"""Tests of `search` on the sample, and of the libraries that commands import."""

import json
import re
import shutil
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from aragorn.__main__ import main
from aragorn.paths import CHECKPOINT_DIR
from aragorn.search import load_system
from tests.conftest import ROOT, SAMPLE, argv, run_process

QUERY = "Should zoos be abolished?"


@pytest.fixture
def search(capsys):
    """Return a function that runs the `search` command in this process."""

    def run(*flags):
        code = main(["search", *flags, "--device", "cpu"])
        return code, *capsys.readouterr()

    return run


def test_json_fields(search):
    code, out, _ = search("--json", "--explain", "--depth", "3", "--system", "dirichlet", QUERY)
    results = json.loads(out)
    assert (code, results["query"], out.count("\n")) == (0, QUERY, 1)
    hit = results["systems"][0]["hits"][2]
    assert {key: hit[key] for key in ("rank", "docno", "stance", "portal", "conclusion")} == {
        "rank": 3, "docno": "S89c1bfbf-A23fa7870", "stance": "CON", "portal": "debateorg",
        "conclusion": "Zoos should be abolished",
    }  # fmt: skip
    snippet = hit["snippet"]
    assert [snippet["text"][start:end] for start, end in snippet["matches"]] == ["zoos"]
    contributions = hit["explanation"]["contributions"]
    assert [row["name"] for row in contributions] == ["zoos", "abolished"]
    assert sum(row["value"] for row in contributions) == pytest.approx(hit["score"])


def test_failure_of_one_system_does_not_stop_others(search, tmp_path):
    checkpoints = Path(
        shutil.copytree(CHECKPOINT_DIR / "dirichlet", tmp_path / "checkpoints" / "dirichlet")
    ).parent
    flags = argv("--system dirichlet --system bm25_arguments --checkpoints", checkpoints)
    code, out, err = search(*flags, QUERY)
    assert (code, "failed:" in out, "1.3942" in out) == (6, True, True)
    assert "systems failed: bm25_arguments" in err
    assert search(*flags[2:], QUERY)[0] == 4  # none is left


def test_prompt_reads_queries_from_a_pipe(search, monkeypatch):
    lines = f"{QUERY}\n\n   \n{'zoo ' * 10_000}\nzoos \N{SNOWMAN}".encode() + b"\xff\x00\n"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(lines), encoding="ascii"))
    code, out, err = search("--system", "dirichlet", "--json")
    expected = [QUERY, "zoos \ufffd\ufffd\ufffd\ufffd"]
    assert [json.loads(line)["query"] for line in out.splitlines()] == expected
    assert code == 0
    # empty lines are skipped
    assert err.count("error: query has 39999 characters") == err.count("error: ") == 1


def test_search_prints_the_documented_hits():
    readme = (ROOT / "submission" / "aragorn" / "search" / "README.md").read_text(encoding="utf-8")
    example = re.search(r">>> (load_system\(.*)\n([^`]*)```", readme)
    hits = eval(example[1], {"load_system": load_system, "Path": lambda path: ROOT / path})
    assert str(hits) == example[2].rstrip()


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
