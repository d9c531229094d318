"""Identify the repository and the commit of this program's source code."""

import os
import re
import subprocess

from aragorn.paths import PROJECT_DIR


def describe_source_code() -> dict[str, str]:
    """Return `repository` and `commit` of the image or the clone: remote without credentials;
    -dirty if files differ."""
    remote = re.sub(r"(://)([^/]*@)?([^?#]*).*", r"\1\3", _query_git("ls-remote", "--get-url"))
    # without remotes, git returns "origin"
    repository = remote if re.search("[:/]", remote) else PROJECT_DIR.as_uri()
    # the full hash, without tags
    commit = _query_git("describe", "--always", "--dirty", "--abbrev=64", "--exclude=*")
    return {
        "repository": os.environ.get("ARAGORN_SOURCE") or repository,
        "commit": os.environ.get("ARAGORN_REVISION") or commit or "unknown",
    }


def _query_git(*arguments: str) -> str:
    """Return the output of git on the clone in the project directory; "" if there is no clone or no
    git."""
    command = ["git", f"--git-dir={PROJECT_DIR / '.git'}", f"--work-tree={PROJECT_DIR}", *arguments]
    try:
        process = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return process.stdout.decode(errors="backslashreplace").strip()
