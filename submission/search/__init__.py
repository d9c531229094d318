"""Search interactively: terminal, web page, Python.

Documents that cannot be read raise InputError, an unwritable cache directory OutputError, a checkpoint that cannot be loaded
CheckpointError, and impossible arguments UsageError.
"""

from __future__ import annotations

from submission.search.api import load_system as load_system

open_system = load_system  # deprecated name, until the next release
