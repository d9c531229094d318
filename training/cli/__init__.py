"""Command-line verbs, one group per module: arguments and entry point.

Heavy libraries (torch, gensim, matplotlib) are imported inside the entry points to keep --help fast.
"""

from __future__ import annotations
