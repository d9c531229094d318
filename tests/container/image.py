"""Build the Dockerfile and run what it makes, without a container engine: buildah builds, the kernel's namespaces isolate.

    python -m tests.container.image WORK [ray]     # builds into WORK, with Ray or without, and prints the layers

Needs root, buildah, debootstrap and unshare. The base image comes from debootstrap: Debian bookworm with its own Python 3.11
in the place of python:3.11-slim, which takes a registry. pip's configuration of this machine is mounted while building.
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
USER = 12345  # of no account
LOOPBACK = (  # up, as without a network in a container: flags IFF_UP and IFF_RUNNING by SIOCSIFFLAGS
    'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'
)
PATH = "/usr/local/bin:/usr/bin:/bin"


def missing() -> str:
    """Why images cannot be built here; empty if they can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "building an image here needs root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"building an image here needs {', '.join(absent)}" if absent else ""


class Image:
    """A built image, unpacked."""

    def __init__(self, work: Path, index: str | None = None, layers: bool = False, ray: bool = False) -> None:
        """Build it; what is in work already is used again.

        Args:
            work: an empty directory, or one of an earlier build.
            index: the build argument TORCH_INDEX; None: that of the CPU builds.
            layers: one layer an instruction, as docker does; takes several times the disk.
            ray: the build argument RAY=yes.
        """
        self._work, name = work, "aragorn-ray" if ray else "aragorn"
        self._make_base()
        index = index or _cpu_index(work)
        mounts = [flag for path in [*_pip_mounts(work), *_local([index])] for flag in ("--volume", f"{path}:{path}:ro")]
        mounts += ["--volume", f"{work / 'pip.conf'}:/etc/pip.conf:ro"]
        arguments = [f"BASE={self._base}", f"TORCH_INDEX={index}", f"REVISION={revision()}", *(["RAY=yes"] if ray else [])]
        flags = [flag for argument in arguments for flag in ("--build-arg", argument)]
        shape = ["--layers"] if layers else []
        self._buildah("bud", "--isolation", "chroot", "--network", "host", *shape, *mounts, *flags, "-t", name, str(ROOT))
        self.config = json.loads(self._buildah("inspect", "--type", "image", name))
        container = self._buildah("from", "--pull-never", name).strip()
        self.root = Path(self._buildah("mount", container).strip())

    def layers(self) -> list[tuple[str, int]]:
        """What made each layer and its bytes, uncompressed, the base first."""
        history = [entry for entry in self.config["OCIv1"]["history"] if not entry.get("empty_layer")]
        stored = {layer["id"]: layer for layer in self._stored("layers")}
        chain = [next(image["layer"] for image in self._stored("images") if image["id"] == self.config["FromImageID"])]
        while "parent" in stored[chain[-1]]:
            chain.append(stored[chain[-1]]["parent"])
        sizes = [stored[layer]["diff-size"] for layer in reversed(chain)]
        return [(entry.get("created_by", "the base"), size) for entry, size in zip(history, sizes, strict=True)]

    def bytes(self) -> int:
        """The size of all files."""
        return int(subprocess.run(["du", "-sxb", str(self.root)], capture_output=True, text=True, check=True).stdout.split()[0])

    def start(
        self, command: list[str], mounts: Mapping[str, tuple[Path, str]], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start a command in the image as TIRA's strictest host would.

        No network, a read-only root without a writable /tmp, a user without account or home, a working directory that is not
        the image's; the command is process 1 there.

        Args:
            command: program and arguments.
            mounts: place in the image → directory here and "ro" or "rw".
            environment: all variables but PATH and HOME.
        """
        steps = [f"{sys.executable} -c '{LOOPBACK}'", f"mount --bind {self.root} {self.root}", f"cd {self.root}"]
        for place, (directory, mode) in mounts.items():
            (self.root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
            steps += [f"mount --bind {directory} .{place}", f"mount -o remount,bind,{mode} .{place}"]
        steps += ["mount -t proc proc ./proc", "mount --rbind /dev ./dev", "mount -o remount,bind,ro ."]
        variables = [f"{name}={value}" for name, value in {"PATH": PATH, "HOME": "/", **environment}.items()]
        inner = ["chroot", f"--userspec={USER}:{USER}", "--groups=", ".", "env", "-i", "--chdir=/usr", *variables, *command]
        outer = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--"]
        script = " && ".join([*steps, 'exec "$@"'])
        return subprocess.Popen([*outer, "sh", "-c", script, "sh", *inner], stderr=subprocess.PIPE, text=True)

    def run(
        self, command: list[str], mounts: Mapping[str, tuple[Path, str]], environment: Mapping[str, str]
    ) -> tuple[int, str]:
        """The same, waited for: exit code and standard error."""
        process = self.start(command, mounts, environment)
        said = process.communicate()[1]
        return process.returncode, said

    def _make_base(self) -> None:
        self._base = "localhost/python-3.11-slim"
        if self._base in self._buildah("images", "--format", "{{.Name}}"):
            return
        root = self._work / "base"
        packages = "python3,python3-pip,ca-certificates"
        _call("debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root))
        (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink()  # as in python:3.11-slim, where pip may install
        for rest in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
            shutil.rmtree(root / rest)
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", container, str(root), "/")
        self._buildah("commit", "--quiet", "--rm", container, self._base)
        shutil.rmtree(root)

    def _stored(self, what: str) -> list[dict[str, Any]]:
        file = self._work / "storage" / f"vfs-{what}" / f"{what}.json"
        return list(json.loads(file.read_text(encoding="utf-8")))

    def _buildah(self, *arguments: str) -> str:
        storage = ["--root", str(self._work / "storage"), "--runroot", str(self._work / "run"), "--storage-driver", "vfs"]
        return _call("buildah", *storage, *arguments)


def _call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def _cpu_index(work: Path) -> str:
    """The index of torch's CPU builds; where it is out of reach, one of the wheel that pip's configuration here offers."""
    try:
        with urlopen(f"{CPU_INDEX}/torch/", timeout=10):
            return CPU_INDEX
    except OSError:
        pass
    [torch] = [line for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").split() if line.startswith("torch==")]
    folder = work / "index" / "torch"
    _call(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), torch)
    [wheel] = folder.glob("*.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "index.html").write_text(f'<a href="{quote(wheel.name)}#sha256={digest}">{wheel.name}</a>\n', encoding="utf-8")
    return folder.parent.as_uri()


def revision() -> str:
    """The commit that is checked out, as far as git knows."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _pip_mounts(work: Path) -> list[Path]:
    """Write this machine's pip settings to pip.conf, and give the files of this machine that they name."""
    listed = _call(sys.executable, "-m", "pip", "config", "list")
    settings = dict(line.split("=", 1) for line in listed.splitlines())
    lines = {name.rpartition(".")[2]: value.strip("'") for name, value in settings.items()}
    (work / "pip.conf").write_text(
        "[global]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items()), encoding="utf-8"
    )
    return _local([word for value in lines.values() for word in value.replace("\\n", " ").split()])


def _local(words: list[str]) -> list[Path]:
    """The paths among words; of a package index the directory above, where its files may be."""
    urls = [Path(word.removeprefix("file://")).parent for word in words if word.startswith("file://")]
    found = {*urls, *(Path(word) for word in words)}
    return sorted(path for path in found if path.is_absolute() and path.exists())


if __name__ == "__main__":
    image = Image(Path(sys.argv[1]).resolve(), layers=True, ray=sys.argv[2:] == ["ray"])
    for made_by, size in image.layers():
        print(f"{size:13,} {made_by[:150]}")
    print(f"{image.bytes():13,} in all")
