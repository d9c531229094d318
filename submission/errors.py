"""The errors raised on purpose, and the exit code each one ends the process with."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import process

LISTED = 60  # valid names in a message

EXIT_CODES = """exit codes: 0 done; 1 internal error; 2 usage; 3 input; 4 checkpoint; 5 output;
6 some systems failed, the others are written; 7 training: a network that does not learn or diverges;
8 training: a checkpoint that is not reproduced"""


class SubmissionError(Exception):
    """Base of all errors that a user can mend. The message says what, where, what was expected and what to do."""

    exit_code = 1


class UsageError(SubmissionError):
    """A flag or name that cannot be meant."""

    exit_code = 2


class InputError(SubmissionError, ValueError):
    """Topics or corpus that break the contract."""

    exit_code = 3


class CheckpointError(SubmissionError):
    """A checkpoint that is missing, damaged or computes something else than it did when it was written."""

    exit_code = 4


class OutputError(SubmissionError):
    """An output directory that cannot or must not be written."""

    exit_code = 5


class SystemsFailedError(SubmissionError):
    """Some systems failed; the runs of the others are written."""

    exit_code = 6


class TrainingError(SubmissionError):
    """A network that does not learn, or diverges."""

    exit_code = 7


class ReproductionError(SubmissionError):
    """A checkpoint that could not be reproduced."""

    exit_code = 8


class FaultsError(SubmissionError):
    """A check that found something; the exit code is that of what it found."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def short(text: str, most: int = 80) -> str:
    """Sanitise and truncate a text for a message."""
    seen = text if text.isprintable() else ascii(text)[1:-1]
    return seen if len(seen) <= most else f"{seen[:most]}… ({len(text)} characters)"


def shown(text: str) -> str:
    """Escape invisible characters of lines for a terminal; file names may hold anything."""
    return "\n".join(line if line.isprintable() else ascii(line)[1:-1] for line in text.split("\n"))


def counted(number: int, noun: str) -> str:
    """Format a number with its noun, in the plural unless it is 1: `1 fault`, `1,343 faults`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def unreadable(error: OSError) -> InputError:
    """Create the error for an input file that cannot be read."""
    return InputError(f"{error.filename}: cannot be read ({error.strerror}); check the mount and its permissions")


def nearest(name: str, valid: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the nearest valid one, and all of them."""
    choices = sorted(valid)
    best = process.extractOne(name, choices, score_cutoff=50, processor=lambda text: text.lower().replace("-", "_"))
    guess = f"did you mean {best[0]!r}? " if best else ""
    more = f" and {len(choices) - LISTED} more" if len(choices) > LISTED else ""
    return f"{guess}Valid: {', '.join(choices[:LISTED]) or 'none'}{more}"
