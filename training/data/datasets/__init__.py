"""Read published data sets; files that are missing or malformed raise InputError."""

from __future__ import annotations
