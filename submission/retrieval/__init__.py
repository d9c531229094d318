"""First stage: topic → candidates."""

from __future__ import annotations
