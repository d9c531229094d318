"""Build the Dockerfile with buildah and run the image in Linux namespaces, without a container engine.

    python -m tests.container.image WORK_DIR [ray]     # builds into WORK_DIR, optionally with Ray, and prints the layers

Needs root, buildah, debootstrap and unshare. The base image is Debian bookworm with Python 3.11 from debootstrap instead of
python:3.11-slim, which needs a registry. This machine's pip configuration is mounted while building.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

ROOT = Path(__file__).parent.parent.parent
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TOOLS = ("buildah", "debootstrap", "unshare", "chroot")
USER = 12345  # has no account
LOOPBACK = (  # enables lo, as container engines do: IFF_UP and IFF_RUNNING by SIOCSIFFLAGS
    'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'
)
PATH = "/usr/local/bin:/usr/bin:/bin"


def find_obstacle() -> str:
    """Return why images cannot be built on this machine, or an empty string."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "building an image needs root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"building an image needs {', '.join(absent)}" if absent else ""


class Image:
    """A built and mounted image."""

    def __init__(self, work_dir: Path, index: str | None = None, layers: bool = False, ray: bool = False) -> None:
        """Build the image, or reuse an earlier build.

        Args:
            work_dir: An empty directory, or one of an earlier build.
            index: The build argument TORCH_INDEX; None: the index of the CPU builds.
            layers: One layer per instruction, as docker does; needs several times the disk space.
            ray: The build argument RAY=yes.
        """
        self._work_dir, name = work_dir, "aragorn-ray" if ray else "aragorn"
        self._build_base()
        index = index or _find_cpu_index(work_dir)
        paths = [*_list_pip_mounts(work_dir), *_find_local_paths([index])]
        mounts = [flag for path in paths for flag in ("--volume", f"{path}:{path}:ro")]
        mounts += ["--volume", f"{work_dir / 'pip.conf'}:/etc/pip.conf:ro"]
        build_args = [f"BASE={self._base}", f"TORCH_INDEX={index}", f"REVISION={read_revision()}"]
        flags = [flag for argument in [*build_args, *(["RAY=yes"] if ray else [])] for flag in ("--build-arg", argument)]
        flags += ["--layers"] if layers else []
        self._buildah("bud", "--isolation", "chroot", "--network", "host", *mounts, *flags, "-t", name, str(ROOT))
        self.config = json.loads(self._buildah("inspect", "--type", "image", name))
        container = self._buildah("from", "--pull-never", name).strip()
        self.root = Path(self._buildah("mount", container).strip())

    def list_layers(self) -> list[tuple[str, int]]:
        """List the instruction and the uncompressed size of each layer, from the base."""
        history = [entry for entry in self.config["OCIv1"]["history"] if not entry.get("empty_layer")]
        stored = {layer["id"]: layer for layer in self._read_storage("layers")}
        chain = [next(image["layer"] for image in self._read_storage("images") if image["id"] == self.config["FromImageID"])]
        while "parent" in stored[chain[-1]]:
            chain.append(stored[chain[-1]]["parent"])
        sizes = [stored[layer]["diff-size"] for layer in reversed(chain)]
        return [(entry.get("created_by", "the base"), size) for entry, size in zip(history, sizes, strict=True)]

    def measure_size(self) -> int:
        """Return the size of all files in bytes."""
        return int(_call("du", "-sxb", str(self.root)).split()[0])

    def start(
        self, command: list[str], mounts: Mapping[str, tuple[Path, str]], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start a command in the image under TIRA's strictest conditions.

        No network, a read-only root without a writable /tmp, a user without account or home, a working directory other than
        the image's; the command is process 1.

        Args:
            mounts: Path in the image → directory on this machine and "ro" or "rw".
            environment: All variables except PATH and HOME.
        """
        steps = [f"{sys.executable} -c '{LOOPBACK}'", f"mount --bind {self.root} {self.root}", f"cd {self.root}"]
        for target, (directory, mode) in mounts.items():
            (self.root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
            steps += [f"mount --bind {directory} .{target}", f"mount -o remount,bind,{mode} .{target}"]
        steps += ["mount -t proc proc ./proc", "mount --rbind /dev ./dev", "mount -o remount,bind,ro ."]
        variables = [f"{name}={value}" for name, value in {"PATH": PATH, "HOME": "/", **environment}.items()]
        inner = ["chroot", f"--userspec={USER}:{USER}", "--groups=", ".", "env", "-i", "--chdir=/usr", *variables, *command]
        outer = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--"]
        script = " && ".join([*steps, 'exec "$@"'])
        return subprocess.Popen([*outer, "sh", "-c", script, "sh", *inner], stderr=subprocess.PIPE, text=True)

    def run(
        self, command: list[str], mounts: Mapping[str, tuple[Path, str]], environment: Mapping[str, str]
    ) -> tuple[int, str]:
        """Run a command like `start` and return its exit code and standard error."""
        process = self.start(command, mounts, environment)
        stderr = process.communicate()[1]
        return process.returncode, stderr

    def _build_base(self) -> None:
        self._base = "localhost/python-3.11-slim"
        if self._base in self._buildah("images", "--format", "{{.Name}}"):
            return
        root = self._work_dir / "base"
        packages = "python3,python3-pip,ca-certificates"
        _call("debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root))
        (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink()  # python:3.11-slim lets pip install, too
        for unneeded in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(root / unneeded)
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", container, str(root), "/")
        self._buildah("commit", "--quiet", "--rm", container, self._base)
        shutil.rmtree(root)

    def _read_storage(self, kind: str) -> list[dict[str, Any]]:
        file = self._work_dir / "storage" / f"vfs-{kind}" / f"{kind}.json"
        return list(json.loads(file.read_text(encoding="utf-8")))

    def _buildah(self, *arguments: str) -> str:
        storage = [
            "--root",
            str(self._work_dir / "storage"),
            "--runroot",
            str(self._work_dir / "run"),
            "--storage-driver",
            "vfs",
        ]
        return _call("buildah", *storage, *arguments)


def _call(*command: str) -> str:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        output = f"{process.stdout[-3000:]}\n{process.stderr[-3000:]}"
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n{output}")
    return process.stdout


def _find_cpu_index(work_dir: Path) -> str:
    """Return the index of torch's CPU builds; if unreachable, build one from the wheel of the configured index."""
    try:
        with urlopen(f"{CPU_INDEX}/torch/", timeout=10):
            return CPU_INDEX
    except OSError:
        pass
    [torch] = [line for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").split() if line.startswith("torch==")]
    folder = work_dir / "index" / "torch"
    _call(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), torch)
    [wheel] = folder.glob("*.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "index.html").write_text(f'<a href="{quote(wheel.name)}#sha256={digest}">{wheel.name}</a>\n', encoding="utf-8")
    return folder.parent.as_uri()


def read_revision() -> str:
    """Return the commit of the checkout, or "unknown"."""
    process = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"


def _list_pip_mounts(work_dir: Path) -> list[Path]:
    """Write this machine's pip settings to pip.conf, and return the local paths in them."""
    config = _call(sys.executable, "-m", "pip", "config", "list")
    settings = dict(line.split("=", 1) for line in config.splitlines())
    lines = {name.rpartition(".")[2]: value.strip("'") for name, value in settings.items()}
    (work_dir / "pip.conf").write_text(
        "[global]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items()), encoding="utf-8"
    )
    return _find_local_paths([word for value in lines.values() for word in value.replace("\\n", " ").split()])


def _find_local_paths(words: list[str]) -> list[Path]:
    """Find the existing paths among words; of a file:// package index its parent directory, which may have its files."""
    urls = [Path(word.removeprefix("file://")).parent for word in words if word.startswith("file://")]
    return sorted(path for path in {*urls, *map(Path, words)} if path.is_absolute() and path.exists())


if __name__ == "__main__":
    image = Image(Path(sys.argv[1]).resolve(), layers=True, ray=sys.argv[2:] == ["ray"])
    for instruction, size in image.list_layers():
        print(f"{size:13,} {instruction[:150]}")
    print(f"{image.measure_size():13,} total")
