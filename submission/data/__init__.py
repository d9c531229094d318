"""Read topics, documents and runs.

Every reader raises InputError if a file is missing, unreadable or malformed; docstrings name further reasons.
A generator of records yields an InputError in place of each invalid record; `input_files.raise_on_error` raises the first one,
`input_files.collect` returns all. Readers that return issues return the valid records and the messages of all errors.
"""
