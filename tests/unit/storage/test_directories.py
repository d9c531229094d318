"""Tests of cache directories, locks, and checkpoint directories."""

import errno
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from aragorn import __version__
from aragorn.cache import open_cache
from aragorn.errors import CheckpointError, OutputError
from aragorn.storage import atomic_files
from aragorn.storage.checkpoint_directory import read_json, verify_files, write_with_provenance
from aragorn.storage.locks import lock_directory
from aragorn.storage.recorded_files import MANIFEST, RecordedFiles, open_run_directory
from tests.conftest import ROOT, run_process


@pytest.fixture(autouse=True)
def default_hang_up():
    """Let processes that tests start react to a hang-up, even if the suite runs under nohup."""
    handler = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, handler)


@pytest.fixture
def no_tempdir(tmp_path, monkeypatch):
    """Simulate a system without a temporary directory."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])


@pytest.mark.usefixtures("no_tempdir")
def test_fallback_directory_is_tempdir_and_is_removed(tmp_path):
    with open_cache(None, tmp_path) as cache:
        assert cache.path.parent == tmp_path
        assert tempfile.gettempdir() == str(cache.path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_tempdir")
def test_no_temporary_directory_raises(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(OutputError, match="no writable temporary directory"),
        open_cache(None, tmp_path / "file" / "missing"),
    ):
        pass


@pytest.mark.parametrize("is_fallback", [False, True], ids=["system", "fallback"])
def test_work_directories_of_living_processes_remain(is_fallback, tmp_path, monkeypatch):
    """Kill one of two processes; the next one removes its directory only."""
    temp_dir = tmp_path / "tmp"
    output = tmp_path / "out"
    for directory in (temp_dir, output):
        directory.mkdir()
    parent = output if is_fallback else temp_dir
    monkeypatch.setattr(tempfile, "tempdir", None if is_fallback else str(temp_dir))
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])
    code = (
        "import signal, sys; from pathlib import Path; from aragorn import signals\n"
        "from aragorn.cache import open_cache; import tempfile\n"
        "signals.install_handlers()\n"
        "tempfile._candidate_tempdir_list = lambda: sys.argv[1:2]\n"
        "with open_cache(None, Path(sys.argv[2])) as cache:\n"
        "    print(cache.path, flush=True); signal.pause()\n"
    )
    system_dir = "/nonexistent" if is_fallback else str(temp_dir)
    command = [sys.executable, "-c", code, system_dir, str(output)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "submission")}
    options = {"stdout": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen(command, **options) for _ in range(2)]
    try:
        paths = [Path((process.stdout or sys.stdin).readline().strip()) for process in processes]
        assert sorted(parent.iterdir()) == sorted(paths)
        processes[0].kill()
        processes[0].wait()
        with open_run_directory(output), open_cache(None, output) as cache:
            assert sorted(parent.iterdir()) == sorted([paths[1], cache.path])
        processes[1].send_signal(signal.SIGHUP)
        assert processes[1].wait() == 128 + signal.SIGHUP
        assert not list(parent.iterdir())
    finally:
        for process in processes:
            process.kill()
            process.communicate()


SIGNAL_CODE = """
import os, sys
from aragorn import signals
signals.install_handlers()
with signals.on_interrupt(lambda: os.write(1, b"cleaned")):
    os.kill(os.getpid(), int(sys.argv[1]))
    print("ignored")
"""


SIGNAL_NAMES = ("INT", "TERM", "HUP", "QUIT", "XCPU", "USR1", "USR2")
SIGNAL_NAMES += ("ALRM", "VTALRM", "PROF", "IO", "PWR")


@pytest.mark.parametrize("name", SIGNAL_NAMES)
def test_signals_clean_up_and_give_their_exit_code(name):
    signum = signal.Signals[f"SIG{name}"]
    result = run_with_signal(signum)
    assert (result.returncode, result.stdout) == (128 + signum, "cleaned")
    assert result.stderr == "interrupted; run the same command again to resume\n"


def test_hang_up_is_ignored_under_nohup():
    result = run_with_signal(signal.SIGHUP, "trap '' HUP; ")
    assert (result.returncode, result.stdout, result.stderr) == (0, "ignored\n", "")


def run_with_signal(signum, setup=""):
    command = ["sh", "-c", f'{setup}exec "$@"', "sh", sys.executable, "-c", SIGNAL_CODE]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "submission")}
    return run_process([*command, str(int(signum))], env=environment)


def fail_to_lock(code, monkeypatch):
    monkeypatch.setattr(
        "aragorn.storage.locks.fcntl.flock", Mock(side_effect=OSError(code, os.strerror(code)))
    )


@pytest.mark.parametrize("code", [None, errno.EAGAIN, errno.EACCES])
def test_locks_of_other_processes_raise(code, tmp_path, monkeypatch):
    with lock_directory(tmp_path):
        if code:
            fail_to_lock(code, monkeypatch)
        with (
            pytest.raises(OutputError, match="in use by another process; wait"),
            lock_directory(tmp_path),
        ):
            pass


# Lustre; NFS without its lock service; NFS, which locks only files that are open for writing; FUSE
# and others
@pytest.mark.parametrize(
    "code", [errno.ENOSYS, errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO]
)
def test_file_systems_without_locks_are_used_with_a_warning(code, tmp_path, monkeypatch, caplog):
    fail_to_lock(code, monkeypatch)
    with (
        open_run_directory(tmp_path / "runs"),
        open_cache(tmp_path / "cache", tmp_path),
        lock_directory(tmp_path, shared=True),
    ):
        pass
    message = f"cannot be locked ({os.strerror(code)}); use it in only one process at a time"
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [message] * 3


def test_errors_of_a_locked_block_and_missing_directories_are_raised(tmp_path):
    with pytest.raises(BlockingIOError), lock_directory(tmp_path):
        raise BlockingIOError  # like the error of an unavailable lock
    os.mkfifo(tmp_path / "fifo")  # opening it would wait for a writer
    for name in ("nowhere", "fifo"):
        with (
            pytest.raises(OutputError, match="not a writable directory"),
            lock_directory(tmp_path / name),
        ):
            pass


@pytest.fixture
def directory(tmp_path):
    write_with_provenance(tmp_path / "mine", {"a": b"1", "b": b"2", "c": b"3"}, {"made": "here"})
    return tmp_path / "mine"


def read_verified_content(directory):
    verify_files(directory, ("a",))
    return (directory / "a").read_bytes()


def test_provenance_names_the_version(directory):
    provenance = read_json(directory / "provenance.json")
    assert (provenance["version"], provenance["made"]) == (__version__, "here")


def test_directory_always_exists_during_rewrite(directory):
    done = threading.Event()
    states = list[bool]()
    watcher = threading.Thread(
        target=lambda: [states.append(directory.is_dir()) for _ in iter(done.is_set, True)]
    )
    watcher.start()
    for index in range(40):
        write_with_provenance(directory, {"a": b"%d" % index}, {})
    done.set()
    watcher.join()
    assert all(states)
    assert read_verified_content(directory) == b"39"
    assert [*directory.parent.iterdir()] == [directory]


@pytest.mark.parametrize("rename_count", [0, 1])
def test_kill_during_rewrite_keeps_the_old_directory(directory, rename_count, monkeypatch):
    """Interrupt before or between the renames where two directories cannot be exchanged."""
    replace = Path.replace
    renames = itertools.count()

    def replace_or_stop(path, target):
        if path.is_dir() and next(renames) == rename_count:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(atomic_files, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "replace", replace_or_stop)
    with pytest.raises(KeyboardInterrupt):
        write_with_provenance(directory, {"a": b"new"}, {})
    directory.with_name(".mine.1-2-00000003.part").mkdir()  # as a killed process leaves it
    assert read_verified_content(directory) == b"1"
    write_with_provenance(directory, {"a": b"newer"}, {})
    assert read_verified_content(directory) == b"newer"
    assert [*directory.parent.iterdir()] == [directory]


def test_files_of_users_and_links_are_not_written(tmp_path):
    """Write to a device and an own, empty or new file, not to a link or another file."""
    target, link, loop, device, fifo = (
        tmp_path / name for name in ("target", "link", "loop", "device", "fifo")
    )
    link.symlink_to(target)
    loop.symlink_to(loop)
    device.symlink_to("/dev/null")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    for path in (link, loop):
        with pytest.raises(OutputError, match=f"{path}: a symbolic link, through which nothing"):
            atomic_files.write_atomic(path, "# a", b"# ")
    target.touch()
    for content in ("# a", "# b"):
        for path in (target, device, fifo):
            atomic_files.write_atomic(path, content, b"# ")
        assert (target.read_text(), os.read(reader, 99)) == (content, content.encode())
    os.close(reader)
    with pytest.raises(OutputError, match="target: a file of another program; move it away or"):
        atomic_files.write_atomic(target, "x", b"## ")
    with pytest.raises(OutputError, match="a directory; expected a regular file"):
        atomic_files.write_atomic(tmp_path, "x", b"")
    assert {*tmp_path.iterdir()} == {target, link, loop, device, fifo}
    assert target.read_text() == "# b"


def test_links_and_special_files_are_replaced_where_the_name_is_not_the_users(tmp_path):
    victim, link, dangling, fifo = (tmp_path / name for name in ("victim", "link", "loop", "fifo"))
    victim.write_text("theirs")
    link.symlink_to(victim)
    dangling.symlink_to(dangling)
    os.mkfifo(fifo)
    for path in (link, dangling, fifo):
        atomic_files.replace_atomic(path, "ours")
        assert (path.is_symlink(), path.read_text()) == (False, "ours")
    assert victim.read_text() == "theirs"
    with pytest.raises(OutputError, match="Is a directory"):
        atomic_files.replace_atomic(tmp_path, "x")


def write(files, name):
    files.build([name], lambda path: path.write_text(name))


def test_manifest_that_is_a_link_is_replaced(tmp_path):
    inputs = {"corpus": "1"}
    directory = tmp_path / "tables"
    victim = tmp_path / "victim"
    write(RecordedFiles(directory, inputs), "first")
    content = (directory / MANIFEST).rename(victim).read_text()
    (directory / MANIFEST).symlink_to(victim)
    write(RecordedFiles(directory, inputs), "second")
    assert (victim.read_text(), (directory / MANIFEST).is_symlink()) == (content, False)
    victim.write_text("theirs")
    (directory / MANIFEST).unlink()
    (directory / MANIFEST).symlink_to(victim)
    with pytest.raises(OutputError, match=r"1 file of unknown origin \(manifest.json\)"):
        RecordedFiles(directory, inputs)
    write(RecordedFiles(directory, inputs, overwrite=True), "second")
    assert victim.read_text() == "theirs"


def test_table_that_the_record_lacks_is_not_replaced(tmp_path):
    write(RecordedFiles(tmp_path, {"corpus": "1"}), "first")
    (tmp_path / "second").write_text("theirs")
    with pytest.raises(OutputError, match=r"1 file of unknown origin \(second\); choose another"):
        write(RecordedFiles(tmp_path, {"corpus": "1"}), "second")
    assert (tmp_path / "second").read_text() == "theirs"
    write(RecordedFiles(tmp_path, {"corpus": "1"}, overwrite=True), "second")
    assert (tmp_path / "second").read_text() == "second"


def test_full_disk_keeps_old_directories_and_files(directory, monkeypatch):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OutputError, match="free disk space"):
        write_with_provenance(directory, {"a": b"new"}, {})
    with pytest.raises(OutputError, match="free disk space"):
        atomic_files.write_atomic(directory / "a", b"new", b"")
    assert read_verified_content(directory) == b"1"


def test_missing_checkpoint_names_its_fix_and_five_others(tmp_path):
    for name in "abcdefg":
        (tmp_path / name).mkdir()
    message = r"`aragorn-training all --only drmm`; available: a, b, c, d, e, …$"
    with pytest.raises(CheckpointError, match=message):
        verify_files(tmp_path / "drmm", ())
