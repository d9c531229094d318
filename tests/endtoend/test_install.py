"""Tests of submission/install.sh with locks of tiny packages."""

import hashlib
import os
import shutil
import subprocess
from zipfile import ZipFile

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def write_package(project, lock, name, version):
    """Write a wheel with one module, and the lock that pins it."""
    wheel = project / "wheels" / f"{name}-{version}-py3-none-any.whl"
    wheel.parent.mkdir(exist_ok=True)
    metadata = f"{name}-{version}.dist-info"
    with ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(
            f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{metadata}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (project / lock).parent.mkdir(exist_ok=True)
    (project / lock).write_text(f"{name}=={version} \\\n    --hash=sha256:{digest}\n")


@pytest.fixture
def project(tmp_path):
    project = tmp_path / "a project"
    (project / "submission").mkdir(parents=True)
    shutil.copy(ROOT / "submission" / "install.sh", project / "submission")
    write_package(project, "requirements.lock", "tiny", "1.0")
    write_package(project, "requirements-cpu.lock", "torch", "2.13.0+cpu")
    write_package(project, "training/requirements.lock", "trainer", "3")
    return project


def start(project, *locks, **variables):
    """Start the script with pip configured for the wheels of the project."""
    environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": (project / "wheels").as_uri()}
    return subprocess.Popen(
        [str(project / "submission" / "install.sh"), *locks],
        env=os.environ | environment | {"ARAGORN_TORCH": "cpu"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def install(project, *locks, **variables):
    """Run the script and return exit code, standard output and error."""
    process = start(project, *locks, **variables)
    out, err = process.communicate()
    return process.returncode, out.strip(), err


def read_version(project, package):
    python = str(project / ".venv" / "bin" / "python")
    command = [python, "-I", "-c", f"print(__import__('{package}').VERSION)"]
    return subprocess.check_output(command, text=True).strip()


def test_simultaneous_starts_install_once_whatever_pip_is_configured_for(project):
    elsewhere = project.parent / "elsewhere"
    configuration = project.parent / "pip.conf"
    configuration.write_text(
        f"[global]\nrequire-virtualenv = true\n[install]\nuser = true\ntarget = {elsewhere}\n"
        "dry-run = true\nno-binary = :all:\nconstraint = /nowhere\nrequirement = /nowhere\n"
        "editable = /nowhere\nplatform = win32\n"
    )
    flags = ("PIP_USER", "PIP_DRY_RUN", "PIP_VERSION", "PIP_REQUIRE_VIRTUALENV")
    settings = dict.fromkeys(flags, "1") | {"PIP_CONFIG_FILE": str(configuration)}
    settings |= dict.fromkeys(("PIP_TARGET", "PYTHONPATH"), str(elsewhere))
    settings |= {"PIP_PYTHON": "/nowhere/python", "PIP_PLATFORM": "win32"}
    processes = [start(project, **settings) for _ in range(2)]
    outcomes = [(*process.communicate(), process.returncode) for process in processes]
    python = str(project / ".venv" / "bin" / "python")
    assert [(out.strip(), code) for out, _, code in outcomes] == [(python, 0)] * 2
    log = "".join(err for _, err, _ in outcomes)
    assert [log.count(word) for word in ("Creating", "Waiting", "Installing")] == [1, 1, 2]
    assert (read_version(project, "tiny"), read_version(project, "torch")) == ("1.0", "2.13.0+cpu")
    assert not elsewhere.exists()
    assert install(project) == (0, python, "")
    write_package(project, "requirements.lock", "tiny", "1.1")
    _, _, log = install(project, "training")
    locks = ["requirements.lock", "training/requirements.lock"]
    expected = [f"Installing the packages of {lock}" for lock in locks]
    assert [line.split(" into ")[0] for line in log.splitlines()] == expected
    assert (read_version(project, "tiny"), read_version(project, "trainer")) == ("1.1", "3")
    (project / "wheels" / "tiny-1.1-py3-none-any.whl").unlink()
    shutil.rmtree(project / ".venv")
    code, out, log = install(project)
    assert (code, out) == (1, "")
    assert log.splitlines()[-1].startswith("error: cannot install requirements.lock into ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_environment_with_the_python_of_another_user_is_refused(project):
    (project / ".venv" / "bin").mkdir(parents=True)
    hidden = project.parent / "home"
    hidden.mkdir(mode=0o700)
    (project / ".venv" / "bin" / "python").symlink_to(hidden / "python")
    for parent in project.parents[:4]:
        parent.chmod(0o755)
    script = str(project / "submission" / "install.sh")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run([*user, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"error: {project / '.venv'} is incomplete, or its Python cannot be")


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_other_files_in_the_place_of_the_environment_remain(kind, project):
    venv = project / ".venv"
    theirs = project / "theirs"
    theirs.mkdir()
    if kind == "file":
        venv.write_text("theirs")
    elif kind == "link":
        venv.symlink_to(theirs)
    else:
        (venv / "notes").mkdir(parents=True)
    code, out, log = install(project)
    assert (code, out) == (1, "")
    [line] = log.splitlines()
    assert line.startswith(f"error: {venv} is ")
    assert line.endswith("virtual environment of this project; move it away")
    assert (venv.exists(), [*theirs.iterdir()]) == (True, [])


@pytest.mark.parametrize(("torch", "extra"), [("rocm", "ray"), ("cpu", "rays")])
def test_unknown_extras_are_refused_before_anything_is_installed(torch, extra, project):
    (project / "requirements-ray.lock").touch()
    code, out, log = install(project, extra, ARAGORN_TORCH=torch)
    assert (code, out, (project / ".venv").exists()) == (1, "", False)
    lock = f"requirements-{torch if torch == 'rocm' else extra}.lock"
    assert log.startswith(f"error: no {lock}; expected ARAGORN_TORCH=cpu or cuda, and extras")


def test_image_uses_its_own_python(project):
    (project / ".installed").touch()
    assert install(project) == (0, shutil.which("python3"), "")


def test_missing_test_file_is_named_before_anything_runs():
    done = subprocess.run(
        [str(ROOT / "tests" / "run"), "tests/unit/absent.py::test"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: tests/unit/absent.py::test: not found below {ROOT}\n"
