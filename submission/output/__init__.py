"""Write TREC runs, their directory and ir-metadata; a file that cannot be written raises OutputError."""

from __future__ import annotations
