"""Questions of people: in a terminal, in a browser, and from Python."""

from __future__ import annotations

from submission.search.system import open_system as open_system
