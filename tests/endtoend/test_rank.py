"""Tests of the `rank` command and run.sh."""

import os
import shutil

import pytest

from aragorn.__main__ import main as aragorn
from aragorn.systems.catalogue import SYSTEMS
from tests.conftest import ROOT, SAMPLE, argv, read_files, run_process


def run_sh(*arguments, cwd):
    """Run run.sh in the directory `cwd`, without the environment variables of TIRA and Python."""
    removed = ("TIRA", "inputDataset", "outputDir", "PYTHON")
    environment = {key: text for key, text in os.environ.items() if not key.startswith(removed)}
    command = [str(ROOT / "run.sh"), *map(str, arguments)]
    return run_process(command, cwd=cwd, env=environment)


def test_runs_have_the_requested_depth_tag_and_order(rank_all, tmp_path):
    flags = argv("--team me --depth 2 --system bm25 --system knrm")
    assert rank_all("out", *flags) == 0
    out = read_files(tmp_path / "out")
    assert set(out) == {"me-bm25.txt", "me-knrm.txt", "run.txt", "fingerprint.json"}
    assert out["run.txt"] == out["me-bm25.txt"]  # run.txt is the run of the first --system
    for system in ("bm25", "knrm"):
        lines = [line.split(" ") for line in out[f"me-{system}.txt"].decode().splitlines()]
        expected = [(qid, "Q0", rank, f"me-{system}") for qid in "123" for rank in "12"]
        assert [(line[0], line[1], line[3], line[5]) for line in lines] == expected


@pytest.mark.parametrize(
    "command",
    [
        "./link",
        "PATH=.:$PATH link",
        "sh link",
        "sh -- -dash",
        "CDPATH=.. sh here/link",
        "'a b/link'",
        "sh $ROOT/run.sh",
    ],
)
def test_run_sh_resolves_links(command, tmp_path):
    links = {"run": ROOT / "run.sh", "link": "run", "-dash": "link", "here": "."}
    links |= {"a b/link": "../link"}
    for name, target in links.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(target)
    environment = {**os.environ, "ROOT": str(ROOT), "PYTHONIOENCODING": "ascii"}
    process = run_process(["sh", "-c", f"{command} --help"], cwd=tmp_path, env=environment)
    assert process.stdout.startswith("usage: ./run.sh [-h] [--version] VERB ...\n"), process.stderr


@pytest.mark.slow
def test_all_shipped_systems_rank_the_sample(tmp_path, monkeypatch, caplog):
    (tmp_path / "pandas.py").write_text(
        "raise SystemExit('imported a file from the working directory')"
    )
    # a fifth of the arguments
    shutil.copytree(SAMPLE, tmp_path / "input", ignore=shutil.ignore_patterns("debate*.json"))
    topics = tmp_path / "input" / "topics.xml"
    first_two = "<topic>".join(topics.read_text().split("<topic>")[:3]).rstrip()
    topics.write_text(f"{first_two}\n</topics>\n")
    process = run_sh("-i", tmp_path / "input", cwd=tmp_path)
    runs = tmp_path / "runs"
    assert (process.returncode, process.stdout) == (0, ""), process.stderr
    expected = {"run.txt", "fingerprint.json", *(f"aragorn-{name}.txt" for name in SYSTEMS)}
    assert set(read_files(runs)) == expected
    assert (runs / "run.txt").read_bytes() == (runs / "aragorn-fusion.txt").read_bytes()
    assert {line.split()[0] for line in (runs / "run.txt").read_text().splitlines()} == {"1", "2"}
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO")
    assert aragorn(["rank", "-i", str(tmp_path / "input")]) == 0
    assert caplog.text.count("up to date, skipped") == len(SYSTEMS)
