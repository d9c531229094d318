"""Reports on runs, and the generated parts of the READMEs."""

from __future__ import annotations
