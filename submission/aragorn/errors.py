"""Define exceptions with exit codes, and format messages."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

MAX_MESSAGE_LENGTH = 3000  # characters
MAX_NAMES_LISTED = 60  # maximum number of names in a message
# torch, safetensors, SQLite, Ray and the dynamic linker report memory shortage only as text.
MEMORY_SHORTAGE = re.compile(
    r"allocate memory|out of memory|low on memory|bad_alloc"
    r"|failed to map segment from shared object$",
    re.I,
)
THREAD_SHORTAGE = re.compile(r"start new thread|resource temporarily unavailable", re.I)
READ_FIXES = {
    errno.EACCES: "change its permissions",
    errno.EPERM: "change its permissions",
    errno.ENOENT: "check the path, or the target if it is a link",
    errno.ENOTDIR: "use the directory that contains it, or unpack the archive",
    errno.EINVAL: "choose another file",
    errno.ELOOP: "check the links in the path",
    errno.ENAMETOOLONG: "shorten the path",
}
SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# what the system refuses whatever the code does; other errors may be those of the code
REFUSAL_NAMES = (
    "EACCES EPERM EROFS ELOOP ENAMETOOLONG EMFILE ENFILE ENOMEM EAGAIN EBUSY ETXTBSY ENOLCK EIO "
    "EREMOTEIO ENODEV ENXIO ESTALE ETIMEDOUT ENOTCONN EHOSTDOWN ENOSPC EDQUOT EFBIG"
)
REFUSALS = {getattr(errno, name) for name in REFUSAL_NAMES.split()}

EXIT_CODES = (
    "exit codes: 0 success; 1 internal error; 2 usage; 3 input; 4 checkpoint; 5 output; 6 some "
    "systems failed,\nthe runs of the others were written; 9 out of memory; 130 interrupted by "
    "Ctrl-C; 128 + n by signal n"
)


class SubmissionError(Exception):
    """Base class of errors that users can fix; messages state location, cause and fix."""

    exit_code = 1


class UsageError(SubmissionError):
    """Invalid option or unknown name."""

    exit_code = 2


class InputError(SubmissionError, ValueError):
    """Invalid topics, corpus, ranking or qrels.

    Args:
        source: File or other source of the input; or the whole message, if there is nothing else.
        location: Line, argument or field in the source, e.g. "line 3"; "" for the whole source.
        problem: Description of the error.
        fix: What was expected, or what to do.
    """

    exit_code = 3

    def __init__(
        self, source: object, location: str = "", problem: str = "", fix: str = ""
    ) -> None:
        start = f"{source}, {location}" if location else f"{source}"
        middle = f": {problem}" if problem else ""
        super().__init__(f"{start}{middle}{f'; {fix}' if fix else ''}")


class CheckpointError(SubmissionError):
    """Missing, damaged or incompatible checkpoint."""

    exit_code = 4


class OutputError(SubmissionError):
    """Output or cache directory that is not writable, is in use, or contains other results."""

    exit_code = 5


class SystemsFailedError(SubmissionError):
    """Failure of some systems or recipes; the results of the others are complete."""

    exit_code = 6


class TrainingError(SubmissionError):
    """Training that diverges or does not improve the network."""

    exit_code = 7


class ReproductionError(SubmissionError):
    """Failure to reproduce the metrics of a checkpoint."""

    exit_code = 8


class InsufficientMemoryError(SubmissionError):
    """Computation that needs more memory than is available."""

    exit_code = 9


def raise_failures(errors: Mapping[str, Exception], n_systems: int, outcome: str) -> None:
    """Raise the first error if all systems failed, SystemsFailedError if some did,
    with the `outcome` of the others."""
    if errors and len(errors) == n_systems:
        raise next(iter(errors.values()))
    if errors:
        raise SystemsFailedError(f"systems failed: {', '.join(errors)}{outcome}")


class CheckFailedError(SubmissionError):
    """Failure of the `check` command, with the exit code of the first failed check."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def abbreviate(text: str, max_length: int = 80) -> str:
    """Escape unprintable characters; truncate a text above `max_length` and append its length."""
    printable = text if text.isprintable() else ascii(text)[1:-1]
    if len(printable) <= max_length:
        return printable
    return f"{printable[:max_length]}… ({len(text)} characters)"


def abbreviate_list(ids: Sequence[str], max_count: int = 5) -> str:
    """Join at most `max_count` abbreviated ids with commas, and an ellipsis for the others."""
    return ", ".join(map(abbreviate, ids[:max_count])) + (", …" if len(ids) > max_count else "")


def escape_undecodable(text: str) -> str:
    """Escape the bytes of file names that are not UTF-8, e.g. as `M\\xfcller`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def escape_unprintable(text: str) -> str:
    """Escape unprintable characters, newlines included, so that a message is one line."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


def format_message(text: str) -> str:
    """Return a message as one printable line, without the middle above MAX_MESSAGE_LENGTH."""
    line = escape_unprintable(text)
    half = MAX_MESSAGE_LENGTH // 2
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[:half]} … {line[-half:]}"


def escape_name(text: str) -> str:
    """Return the name of a file or run as printable text on one line."""
    return escape_unprintable(escape_undecodable(text))


def pluralise(count: int, noun: str) -> str:
    """Format a count with its noun, e.g. "1 error", "1,343 errors"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def build_unreadable_input_error(error: OSError) -> InputError:
    """Convert an OSError raised when reading an input file into an InputError."""
    return InputError(f"{error.filename}: {describe_read_error(error)}")


def describe_read_error(error: OSError) -> str:
    """Describe why a file or directory is unreadable, with a fix."""
    fix = READ_FIXES.get(error.errno or 0, "check its storage and the mount")
    return f"cannot be read ({error.strerror}); {fix}"


@contextmanager
def as_memory_errors(location: object = "this computation") -> Iterator[None]:
    """Convert exceptions of a block that report a memory shortage to InsufficientMemoryErrors."""
    try:
        yield
    except SubmissionError:
        raise
    except Exception as error:
        cause = abbreviate(str(error) or type(error).__name__, 200)
        if THREAD_SHORTAGE.search(str(error)):
            problem = f"the system allows no further thread or process ({cause})"
            fix = "end other processes, or raise the limit (ulimit -u, docker --pids-limit)"
        elif isinstance(error, MemoryError) or MEMORY_SHORTAGE.search(str(error)):
            problem = f"out of memory ({cause})"
            fix = "free memory or use a larger machine"
        else:
            raise
        raise InsufficientMemoryError(f"{location}: {problem}; {fix}") from None


def is_refusal(error: Exception) -> bool:
    """Return whether the operating system refuses something, so that a traceback does not help."""
    return isinstance(error, OSError) and error.errno in REFUSALS


@contextmanager
def as_system_errors(paths: Iterable[tuple[Path, type[SubmissionError]]]) -> Iterator[None]:
    """Convert refusals by the system, and errors of files of the user, to SubmissionErrors.

    Others are errors of this program, and keep their traceback. `paths` are the user's, each with
    the exception for it and its contents; the first that matches counts.
    """
    try:
        with as_memory_errors():
            yield
    except OSError as error:
        cause = error.strerror or str(error)
        if error.filename is None:
            if not is_refusal(error):
                raise
            kind = OutputError if error.errno in SPACE_ERRORS else SubmissionError
            raise kind(f"{cause}; free the resource and run the same command again") from None
        path = Path(os.fsdecode(error.filename)) if not isinstance(error.filename, int) else None
        kinds = [
            kind
            for directory, kind in paths
            if path and path.absolute().is_relative_to(directory.absolute())
        ]
        if not kinds and not is_refusal(error):
            raise
        message = f"{path}: {cause}; check the path and its permissions"
        raise (kinds or [InputError])[0](message) from None


def suggest(name: str, valid_names: Iterable[str]) -> str:
    """Return a hint for an unknown name: the most similar valid name, and those that are valid."""
    from rapidfuzz import process  # here, because the import would slow down `--help`

    choices = sorted(valid_names)
    match = process.extractOne(
        name, choices, score_cutoff=50, processor=lambda text: text.lower().replace("-", "_")
    )
    hint = f"did you mean {match[0]!r}? " if match else ""
    suffix = (
        f" and {len(choices) - MAX_NAMES_LISTED} more" if len(choices) > MAX_NAMES_LISTED else ""
    )
    return f"{hint}Valid: {', '.join(choices[:MAX_NAMES_LISTED]) or 'none'}{suffix}"
