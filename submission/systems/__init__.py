"""Retrieval systems, their stages, and their execution.

What loads a checkpoint raises CheckpointError; what reads documents, InputError; what caches results, OutputError.
"""

from __future__ import annotations
