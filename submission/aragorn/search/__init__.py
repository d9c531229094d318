"""Search arguments from a terminal, a web page or Python.

Functions raise InputError if documents are unreadable or a data frame is invalid, OutputError if
the cache directory is not writable, CheckpointError if a checkpoint cannot be loaded, and
UsageError if other arguments are invalid.
"""

from aragorn.search.api import load_system as load_system
