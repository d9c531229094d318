"""Read topics, documents and runs.

Every reader raises InputError if a file is missing, unreadable or malformed; docstrings name
further reasons. A generator of records raises it for the first invalid record.
"""
