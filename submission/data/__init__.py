"""Read topics, documents, runs and qrels.

Every reader raises InputError if a file is missing, unreadable or malformed; docstrings name other reasons and exceptions only.
A generator of records yields an InputError in place of each invalid record: `files.strict` raises the first error,
`files.collect` returns all.
"""

from __future__ import annotations
