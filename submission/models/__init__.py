"""Networks and their shared layers."""

from __future__ import annotations
