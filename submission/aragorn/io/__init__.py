"""Read topics, documents and runs.

Every reader raises InputError if a file is missing, unreadable or malformed; docstrings name
further reasons. A generator of records yields an InputError in place of each invalid record;
`input_files.raise_on_error` raises the first one, `input_files.collect` returns the messages of
all. A reader that returns issues returns these messages with the valid records.
"""
