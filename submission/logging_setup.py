"""Configure logging to stderr."""

from __future__ import annotations

import logging
import sys

from submission.errors import escape_unprintable


def configure_logging() -> None:
    """Log to stderr, unless logging is already configured."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_EscapingFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _EscapingFormatter(logging.Formatter):
    """Formatter that escapes unprintable characters."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_unprintable(super().format(record))
