"""What a system is made of, and how its lists come to be."""

from __future__ import annotations
