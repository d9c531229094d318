"""Build the image from the Dockerfile with buildah, and run it in Linux namespaces without a
container engine.

    python -m tests.container.image WORK_DIR [ray|openvino]     # build in WORK_DIR and print the
    size

Needs root, buildah, debootstrap and unshare. The base image is Debian bookworm with Python 3.11
from debootstrap instead of python:3.11-slim, which would require access to a registry. The pip
configuration of this machine is mounted during the build.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TOOLS = ("buildah", "debootstrap", "unshare", "chroot")
USER = 12345  # id of a user without an account in the image
LOOPBACK = (  # enables lo, as container engines do: IFF_UP and IFF_RUNNING by SIOCSIFFLAGS
    'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'
)
PATH = "/usr/local/bin:/usr/bin:/bin"


def find_obstacle():
    """Return why this machine cannot build images, or an empty string if it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "building an image needs root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"building an image needs {', '.join(missing)}" if missing else ""


class Image:
    """A container image, built from the Dockerfile and mounted at `root`."""

    def __init__(self, work_dir, library=""):
        """Build the image in an empty directory or that of an earlier build, whose base image is
        reused.

        `library` is an optional library (ray or openvino).
        """
        self._work_dir = work_dir
        name = f"aragorn-{library}" if library else "aragorn"
        self._build_base()
        paths = _write_pip_settings(work_dir)
        mounts = [flag for path in paths for flag in ("--volume", f"{path}:{path}:ro")]
        mounts += ["--volume", f"{work_dir / 'pip.conf'}:/etc/pip.conf:ro"]
        build_args = [f"BASE={self._base}", "TORCH=cpu", f"REVISION={read_revision()}"]
        if library:
            build_args.append(f"{library.upper()}=yes")
        flags = [flag for argument in build_args for flag in ("--build-arg", argument)]
        options = ["--isolation=chroot", "--network=host"]
        self._buildah("bud", *options, *mounts, *flags, "-t", name, str(ROOT))
        self.config = json.loads(self._buildah("inspect", "--type", "image", name))
        container = self._buildah("from", "--pull-never", name).strip()
        self.root = Path(self._buildah("mount", container).strip())

    def measure_size(self):
        """Return the total size of all files in bytes."""
        return int(_run_command("du", "-sxb", str(self.root)).split()[0])

    def start(self, command, mounts, environment):
        """Start a command in the image, as process 1, under TIRA's strictest conditions.

        There is no network, the root file system including /tmp is read-only, the user has no
        account and no home, and the working directory is not the image's. `mounts` maps paths in
        the image to pairs of a directory and "ro" or "rw".
        """
        steps = [f"{sys.executable} -c '{LOOPBACK}'"]
        steps += [f"mount --bind {self.root} {self.root}", f"cd {self.root}"]
        for target, (directory, mode) in mounts.items():
            (self.root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
            steps += [
                f"mount --bind {directory} .{target}",
                f"mount -o remount,bind,{mode} .{target}",
            ]
        steps += [
            "mount -t proc proc ./proc",
            "mount --rbind /dev ./dev",
            "mount -o remount,bind,ro .",
        ]
        variables = [
            f"{name}={value}" for name, value in {"PATH": PATH, "HOME": "/", **environment}.items()
        ]
        chroot = ["chroot", f"--userspec={USER}:{USER}", "--groups=", "."]
        env = ["env", "-i", "--chdir=/usr", *variables]
        unshare = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--"]
        script = " && ".join([*steps, 'exec "$@"'])
        command = [*unshare, "sh", "-c", script, "sh", *chroot, *env, *command]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def run(self, command, mounts, environment):
        """Run a command like `start`, wait, and return its exit code and standard error."""
        process = self.start(command, mounts, environment)
        stderr = process.communicate()[1]
        return process.returncode, stderr

    def _build_base(self):
        self._base = "localhost/python-3.11-slim"
        if self._base in self._buildah("images", "--format", "{{.Name}}"):
            return
        root = self._work_dir / "base"
        packages = "python3,python3-pip,ca-certificates"
        _run_command(
            "debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root)
        )
        # Allows pip to install packages, as in python:3.11-slim.
        (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink()
        unused = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale")
        for directory in unused:
            shutil.rmtree(root / directory)
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", container, str(root), "/")
        self._buildah("commit", "--quiet", "--rm", container, self._base)
        shutil.rmtree(root)

    def _buildah(self, *arguments):
        storage = ["--root", str(self._work_dir / "storage"), "--storage-driver", "vfs"]
        run = ["--runroot", str(self._work_dir / "run")]
        return _run_command("buildah", *storage, *run, *arguments)


def _run_command(*command):
    """Run a command and return its standard output.

    Raises:
        RuntimeError: If the command fails.
    """
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        output = f"{process.stdout[-3000:]}\n{process.stderr[-3000:]}"
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n{output}")
    return process.stdout


def read_revision():
    """Return the commit of the checkout, or "unknown"."""
    process = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return process.stdout.strip() or "unknown"


def _write_pip_settings(work_dir):
    """Write this machine's pip settings to pip.conf, and return the local paths in them."""
    config = _run_command(sys.executable, "-m", "pip", "config", "list")
    settings = dict(line.split("=", 1) for line in config.splitlines())
    lines = {name.rpartition(".")[2]: value.strip("'") for name, value in settings.items()}
    (work_dir / "pip.conf").write_text(
        "[global]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items()),
        encoding="utf-8",
    )
    return _find_local_paths(
        [word for value in lines.values() for word in value.replace("\\n", " ").split()]
    )


def _find_local_paths(words):
    """Return the existing absolute paths, and the parent directories of file:// URLs."""
    urls = [
        Path(word.removeprefix("file://")).parent for word in words if word.startswith("file://")
    ]
    return sorted(
        path for path in {*urls, *map(Path, words)} if path.is_absolute() and path.exists()
    )


if __name__ == "__main__":
    print(f"{Image(Path(sys.argv[1]).resolve(), *sys.argv[2:]).measure_size():,} bytes")
