"""Read topics, documents, runs and qrels.

Every reader raises InputError if a file is missing, unreadable or malformed; docstrings name other reasons and exceptions only.
A generator of records yields what is wrong with a file as InputErrors between the records: `files.strict` raises the first one,
`files.collect` returns all of them.
"""

from __future__ import annotations
