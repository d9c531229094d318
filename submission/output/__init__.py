"""Write TREC runs, their directory and ir-metadata."""

from __future__ import annotations
