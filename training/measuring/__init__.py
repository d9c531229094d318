"""From runs and judgments to figures."""

from __future__ import annotations
