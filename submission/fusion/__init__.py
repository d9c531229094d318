"""Several lists → one."""

from __future__ import annotations
