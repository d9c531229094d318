"""Tests of the installed package: contents of the wheel, and commands outside the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

from tests.conftest import ROOT, argv, run_process

pytestmark = pytest.mark.slow

WHEEL_DIRECTORIES = {  # directories of the project and of the wheel
    "submission/aragorn": "aragorn",
    "training/aragorn_training": "aragorn_training",
    "checkpoints": "aragorn/checkpoints",
    "training/results": "aragorn_training/results",
}
WITHOUT_PATH = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
QUERY = "Should zoos be abolished?"


def list_files():
    """Return the paths of all files that git tracks, except deleted ones."""
    output = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    return [name for name in output.split("\0") if name and os.path.lexists(ROOT / name)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy of the tracked files, without stale files of earlier builds."""
    directory = tmp_path_factory.mktemp("wheel")
    for name in list_files():
        (directory / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, directory / "project" / name, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(directory), str(directory / "project")]
    subprocess.run(command, check=True)
    [wheel] = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel into an environment that has the packages of this one."""
    directory = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    [packages] = directory.glob("lib/python*/site-packages")
    (packages / "parent.pth").write_text(sysconfig.get_path("purelib"))
    install = argv(sys.executable, "-m pip --python", directory / "bin" / "python", "install")
    subprocess.run([*install, "--quiet", "--no-deps", str(wheel)], env=WITHOUT_PATH, check=True)
    return directory / "bin"


def run(program, *arguments):
    """Run a program in the environment's directory `elsewhere` and return its standard output."""
    elsewhere = program.parent.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    command = [str(program), *map(str, arguments)]
    done = run_process(command, cwd=elsewhere, env=WITHOUT_PATH)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_has_all_tracked_files_of_both_packages_and_no_others(wheel):
    expected = set()
    for name in list_files():
        for directory, wheel_directory in WHEEL_DIRECTORIES.items():
            if PurePosixPath(name).is_relative_to(directory) and not (ROOT / name).is_symlink():
                expected.add(f"{wheel_directory}/{PurePosixPath(name).relative_to(directory)}")
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names - expected == set()
    assert expected - names == set()
    licences = {Path(name).name for name in ZipFile(wheel).namelist() if "/licenses/" in name}
    assert licences >= {"LICENSE", "THIRD-PARTY.md", "Apache-2.0.txt"}


def test_installed_programs_write_the_runs_of_the_checkout(installed, tmp_path):
    assert "S89c1bfbf-A23fa7870" in run(installed / "aragorn", "search", QUERY)
    flags = ["--system", "dirichlet", "--system", "knrm", "--device", "cpu", "-o"]
    run(installed / "aragorn", "rank", *flags, "runs")
    checkout = [sys.executable, "-m", "aragorn", "rank", *flags, str(tmp_path)]
    subprocess.run(checkout, check=True, capture_output=True)
    runs = installed.parent / "elsewhere" / "runs"
    for name in ("aragorn-dirichlet.txt", "aragorn-knrm.txt", "run.txt"):
        assert (runs / name).read_bytes() == (tmp_path / name).read_bytes()
    qrels = ROOT / "submission" / "aragorn" / "sample" / "sample.qrels"
    table = run(installed / "aragorn-training", "evaluate", "--qrels", qrels, runs / "run.txt")
    assert "nDCG@5" in table


def test_systems_load_from_the_installed_package(installed):
    script = """
import sys
import aragorn
assert not {"numpy", "pandas", "torch"} & {*sys.modules}
from aragorn import list_systems, load_system
print(next(iter(list_systems())), aragorn.__file__)
print(load_system("dirichlet").search({"a": "Zoos are cruel.", "b": "Tea."}, "cruel zoos")["docno"])
"""
    output = run(installed / "python", "-c", script)
    assert output.startswith(f"bm25 {installed.parent}")
    assert "a" in output.splitlines()[1]
