"""Measure how many mutations of the code are caught by the tests that are not slow.

A mutation (an entry of mutations.toml) replaces a piece of a module, so that users see wrong
results or messages. It is applied to a copy of the tracked files, in which the test file that the
mutation names runs first, then all tests that are not slow.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
MUTATIONS_FILE = Path(__file__).with_name("mutations.toml")
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow")
TIMEOUT = 1200  # seconds per run of pytest; a mutation that exceeds it counts as caught
MIN_CAUGHT = 0.95  # fraction of the mutations
PASSED = {0, 5}  # exit codes of pytest: all tests passed, no tests collected
# in pytest's summary
FAILURE = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)


def load_mutations():
    """Load the mutations; exit with a message unless each `old` occurs once in its file."""
    mutations = tomllib.loads(MUTATIONS_FILE.read_text(encoding="utf-8"))["mutation"]
    for index, mutation in enumerate(mutations, 1):
        file = ROOT / mutation["file"]
        count = file.read_text(encoding="utf-8").count(mutation["old"]) if file.is_file() else 0
        if count != 1:
            message = f"`old` occurs {count} times in {mutation['file']}; correct it"
            sys.exit(f"mutation {index} ({mutation['consequence']}): {message}")
        if not (ROOT / mutation["tests"]).is_file():
            sys.exit(f"mutation {index}: {mutation['tests']} not found; name another test file")
    return mutations


def copy_checkout(directory):
    """Copy the tracked files, and link the environment, so that run.sh creates none."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listing.stdout.split("\0")):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, directory / name, follow_symlinks=False)
    (directory / ".venv").symlink_to(ROOT / ".venv")


def find_failure(copy, tests):
    """Run tests in a copy of the checkout."""
    settings = {"cwd": copy, "env": os.environ | {"OMP_NUM_THREADS": "1"}, "timeout": TIMEOUT}
    try:
        process = subprocess.run(
            [*PYTEST, *tests], **settings, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the limit of {TIMEOUT} s"
    if process.returncode in PASSED:
        return None
    failure = FAILURE.search(process.stdout)
    return failure[1] if failure else f"exit code {process.returncode} of pytest"


def check_mutation(mutation, copy):
    """Apply a mutation to a copy of the checkout and undo it."""
    file = copy / mutation["file"]
    source = file.read_text(encoding="utf-8")
    file.write_text(source.replace(mutation["old"], mutation["new"]), encoding="utf-8")
    try:
        return find_failure(copy, [mutation["tests"]]) or find_failure(copy, ["tests"])
    finally:
        file.write_text(source, encoding="utf-8")


def main():
    """Test the mutations and print which test catches each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text = "numbers of the mutations to test (default: all)"
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help=text)
    args = parser.parse_args()
    mutations = dict(enumerate(load_mutations(), 1))
    mutations = {index: mutations[index] for index in args.only or mutations}
    caught_count = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as directory:
        copy = Path(directory)
        copy_checkout(copy)
        if failure := find_failure(copy, ["tests"]):
            sys.exit(f"{failure} fails without a mutation; correct the code or test first")
        for index, mutation in mutations.items():
            failure = check_mutation(mutation, copy)
            caught_count += failure is not None
            result = f"caught by {failure}" if failure else f"SURVIVED: {mutation['consequence']}"
            print(
                f"{index:>3}  {mutation['kind']:<21}  {mutation['file']:<48}  {result}", flush=True
            )
    print(f"\n{caught_count} of {len(mutations)} mutations caught")
    return int(caught_count < MIN_CAUGHT * len(mutations))


if __name__ == "__main__":
    sys.exit(main())
