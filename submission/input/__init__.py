"""Read the input: topics, documents, and a list where an earlier stage made one."""

from __future__ import annotations
