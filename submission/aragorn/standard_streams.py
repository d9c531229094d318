"""Write to standard streams whatever their encoding, and report if standard output cannot be
written."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

from aragorn.errors import OutputError


@contextmanager
def handle_stream_errors() -> Iterator[None]:
    """Replace characters that stdin or stdout cannot decode or encode; handle write errors as
    `_CheckedStream` does."""
    for stream in (sys.stdin, sys.stdout):  # stderr escapes such characters by default
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    streams: tuple[Any, Any] = (
        _CheckedStream(sys.stdout, is_required=True),
        _CheckedStream(sys.stderr, is_required=False),
    )
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        yield


class _CheckedStream:
    """Unbuffered text stream that, if writing fails, is connected to the null device."""

    def __init__(self, stream: TextIO, is_required: bool) -> None:
        self._stream = stream
        self._is_required = is_required

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        """Write and flush a text; if a required stream fails, raise OutputError, or SystemExit if
        its pipe is closed."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            # Python would report the error again when it flushes the stream at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if not self._is_required:
                return
            if isinstance(error, BrokenPipeError):  # e.g. `| head`
                raise SystemExit(0) from None
            message = f"standard output: cannot be written ({error.strerror}); redirect it to a writable file"
            raise OutputError(message) from None
