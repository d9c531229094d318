"""Measure how many mutations of the code are caught by the tests that are not slow.

A mutation (an entry of mutations.toml) replaces a piece of a module, so that users see wrong results or messages. It is
applied to a copy of the tracked files, in which the tests of the module run first, then all tests that are not slow.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parent.parent
MUTATIONS_FILE = Path(__file__).with_name("mutations.toml")
UNIT_TESTS = Path("tests/unit")
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow")
TIMEOUT = 1200  # seconds per run of pytest; a mutation that exceeds it counts as caught
MIN_CAUGHT = 0.95  # fraction of the mutations
PASSED = {0, 5}  # exit codes of pytest: all tests passed, no tests collected
FAILURE = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)  # in pytest's summary


@dataclass(frozen=True)
class Mutation:
    """A change of a source file that users would notice."""

    number: int  # position in the list, from 1
    file: str
    old: str  # text that occurs once in the file
    new: str
    kind: str
    consequence: str  # for users

    @property
    def change(self) -> tuple[str, str, str]:
        """File, old and new text, which identify the mutation in a results file if mutations.toml is reordered."""
        return self.file, self.old, self.new


def load_mutations() -> list[Mutation]:
    """Load the mutations; exit with a message if a mutation's `old` text does not occur exactly once in its file."""
    entries = tomllib.loads(MUTATIONS_FILE.read_text(encoding="utf-8"))["mutation"]
    mutations = [Mutation(number, **entry) for number, entry in enumerate(entries, 1)]
    for mutation in mutations:
        file = ROOT / mutation.file
        count = file.read_text(encoding="utf-8").count(mutation.old) if file.is_file() else 0
        if count != 1:
            sys.exit(
                f"mutation {mutation.number} ({mutation.consequence}): `old` occurs {count} times in {mutation.file}; fix it"
            )
    return mutations


def copy_checkout(directory: Path) -> Path:
    """Copy the tracked files into a directory, and link the virtual environment, so that run.sh creates none."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listing.stdout.split("\0")):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, directory / name)
    (directory / ".venv").symlink_to(ROOT / ".venv")
    return directory


def find_mirrored_tests(file: str) -> list[str]:
    """Return the unit tests of a module, or those of its package if it has none; for models, add golden and contract tests."""
    path = Path(file)
    package = UNIT_TESTS / path.parent.relative_to("submission" if path.parts[0] == "submission" else ".")
    candidates = (item for folder in (package, *package.parents) for item in (folder / f"test_{path.stem}.py", folder))
    unit_tests = next(candidate for candidate in candidates if (ROOT / candidate).exists())
    return [str(unit_tests), *(["tests/golden", "tests/contract"] if file.startswith("submission/models/") else [])]


def find_failure(copy: Path, tests: list[str]) -> str | None:
    """Run tests in a copy of the checkout; return the first failing test (or the timeout or exit code), or None if all pass."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*PYTEST, *tests], cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"the limit of {TIMEOUT} s"
    finally:
        with suppress(ProcessLookupError):  # processes that a test started
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode in PASSED:
        return None
    failure = FAILURE.search(output)
    return failure[1] if failure else f"exit code {process.returncode} of pytest"


def check_mutation(mutation: Mutation, copies: SimpleQueue[Path], tests: list[str]) -> tuple[str | None, float]:
    """Test a mutation in a free copy, which is restored; return the result of `find_failure` and the elapsed seconds."""
    copy, start = copies.get(), time.monotonic()
    file = copy / mutation.file
    source = file.read_text(encoding="utf-8")
    file.write_text(source.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        failure = find_failure(copy, find_mirrored_tests(mutation.file)) or find_failure(copy, tests)
        return failure, time.monotonic() - start
    finally:
        file.write_text(source, encoding="utf-8")
        copies.put(copy)


def check_mutations(mutations: list[Mutation], jobs: int, tests: list[str]) -> Iterator[tuple[Mutation, str | None, float]]:
    """Yield each mutation with the failure and seconds, in order of completion; exit if a test fails without a mutation."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as directory, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            copies.put(copy_checkout(Path(directory) / str(job)))
        if failure := find_failure(Path(directory) / "0", tests):
            sys.exit(f"{failure} fails without a mutation; correct the code or test first")
        futures = {pool.submit(check_mutation, mutation, copies, tests): mutation for mutation in mutations}
        for future in as_completed(futures):
            yield futures[future], *future.result()


def main() -> int:
    """Test the mutations and print which test catches each; return 1 if less than `MIN_CAUGHT` are caught, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of the mutations to test (default: all)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="number of mutations tested in parallel (default: 2)")
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="DIR", help="further tests to run (default: tests)")
    results_help = "JSON Lines file to which results are appended; its mutations are not tested again (default: none)"
    parser.add_argument("--results", type=Path, metavar="FILE", help=results_help)
    args = parser.parse_args()
    mutations = [mutation for mutation in load_mutations() if not args.only or mutation.number in args.only]
    lines = args.results.read_text(encoding="utf-8").splitlines() if args.results and args.results.exists() else []
    caught_by = {(row["file"], row["old"], row["new"]): row["caught_by"] for row in map(json.loads, lines)}
    remaining = [mutation for mutation in mutations if mutation.change not in caught_by]
    for mutation, failure, seconds in check_mutations(remaining, args.jobs, args.tests) if remaining else ():
        caught_by[mutation.change] = failure
        result = f"caught by {failure}" if failure else "SURVIVED"
        print(f"{mutation.number:>3}  {mutation.kind:<21}  {mutation.file:<48}  {result}  ({seconds:.0f} s)", flush=True)
        if args.results:
            with args.results.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({**asdict(mutation), "caught_by": failure, "seconds": round(seconds, 1)}) + "\n")
    survivors = [mutation for mutation in mutations if caught_by[mutation.change] is None]
    print(f"\n{len(mutations) - len(survivors)} of {len(mutations)} mutations caught")
    for mutation in survivors:
        print(f"{mutation.number:>3}  {mutation.file}: {mutation.consequence}")
    return int(len(survivors) > (1 - MIN_CAUGHT) * len(mutations))


if __name__ == "__main__":
    sys.exit(main())
