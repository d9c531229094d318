"""Identify the repository and the commit of this program's source code."""

import os
import re
import subprocess

from aragorn.paths import PROJECT_DIR

MAX_SECONDS = 10.0  # of a call of git
REMOTE_ADDRESS = re.compile(r"(?!file:|[/.])[^/]*:")  # rather than a directory of this machine


def describe_source_code() -> dict[str, str]:
    """Return the `commit` of the image or the clone, with -dirty if files differ, and the
    `repository`, without credentials, unless there is no remote one."""
    remote = re.sub(r"(://)([^/]*@)?([^?#]*).*", r"\1\3", _query_git("ls-remote", "--get-url"))
    repository = os.environ.get("ARAGORN_SOURCE")
    if not repository and REMOTE_ADDRESS.match(remote):
        repository = remote
    description = {"repository": repository} if repository else {}
    description["commit"] = os.environ.get("ARAGORN_REVISION") or _describe_commit()
    return description


def _describe_commit() -> str:
    """Return the full hash, with -dirty if tracked files differ; "unknown" without a commit."""
    # `git describe --dirty` rewrites the index even without optional locks
    options = ("--porcelain=v2", "--branch", "--no-ahead-behind", "--untracked-files=no")
    # programs that `git status` would run on files or in submodules
    pattern = r"^filter\..*\.(clean|process|required)$"
    filters = _query_git("config", "--name-only", "--get-regexp", pattern)
    settings = [part for name in filters.splitlines() for part in ("-c", f"{name}=")]
    status = _query_git(*settings, "status", "--ignore-submodules=all", *options)
    commit = re.search(r"^# branch\.oid ([0-9a-f]+)$", status, re.MULTILINE)
    if not commit:
        return "unknown"
    is_dirty = any(not line.startswith("#") for line in status.splitlines())
    return commit[1] + ("-dirty" if is_dirty else "")


def _query_git(*arguments: str) -> str:
    """Return the output of git on the clone in the project directory; "" if there is no clone or no
    git, or it does not answer. The clone is not written, its monitor of files is not run, and
    variables that a caller such as a hook sets do not apply."""
    directories = [f"--git-dir={PROJECT_DIR / '.git'}", f"--work-tree={PROJECT_DIR}"]
    command = ["git", *directories, "-c", "core.fsmonitor=false", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # otherwise `git status` rewrites the index
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            env=environment,
            timeout=MAX_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.decode(errors="backslashreplace").strip()
