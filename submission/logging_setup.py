"""Configure logging to stderr."""

from __future__ import annotations

import logging
import sys

from submission.errors import shown


def log_to_stderr() -> None:
    """Log to stderr unless logging is already configured."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Shown("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _Shown(logging.Formatter):
    """Formatter that escapes control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))
