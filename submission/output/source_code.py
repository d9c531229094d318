"""Identify the repository and the commit of this program's source code."""

import os
import re
import subprocess

from submission.paths import PROJECT_DIR


def get_repository() -> str:
    """Return the URL of the image's repository, of the clone's remote without credentials, or of the project directory."""
    remote = re.sub(r"(://)([^/]*@)?([^?#]*).*", r"\1\3", _query_git("ls-remote", "--get-url"))
    is_url_or_path = re.search("[:/]", remote)  # a clone without remotes has the name "origin" only
    return os.environ.get("ARAGORN_SOURCE") or (remote if is_url_or_path else PROJECT_DIR.as_uri())


def get_commit() -> str:
    """Return the commit of the image or of the clone, the latter with suffix -dirty if tracked files differ, or "unknown"."""
    describe = ("describe", "--always", "--dirty", "--abbrev=64", "--exclude=*")  # the full hash, without tags
    return os.environ.get("ARAGORN_REVISION") or _query_git(*describe) or "unknown"


def _query_git(*arguments: str) -> str:
    """Return the output of git on the clone in the project directory; "" if there is no clone or no git."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # set in git hooks
    command = ["git", f"--git-dir={PROJECT_DIR / '.git'}", f"--work-tree={PROJECT_DIR}", *arguments]
    try:
        process = subprocess.run(command, capture_output=True, env=environment, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return process.stdout.decode(errors="backslashreplace").strip()
