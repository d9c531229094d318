"""The verbs of the command line, by what they make: for each its flags and what it calls.

What a verb needs is imported when it is called: torch, gensim and matplotlib take seconds, and --help needs nothing.
"""

from __future__ import annotations
