"""Search interactively: terminal, web page, Python."""

from __future__ import annotations

from submission.search.api import open_system as open_system
