"""Interactive search from a terminal, a web page or Python.

Raises InputError for unreadable documents, OutputError for an unwritable cache directory, CheckpointError for a checkpoint that
cannot be loaded, and UsageError for invalid arguments.
"""

from submission.search.api import load_system as load_system

open_system = load_system  # deprecated; to be removed in the next release
