"""Search interactively: terminal, web page, Python."""

from __future__ import annotations

from submission.search.api import load_system as load_system
