"""Prepare training data: tables, word vectors, published data sets.

Functions that read raise InputError if files are missing, damaged or unfit; functions that write raise OutputError if a
directory is not writable or holds data of other input. Complete files are skipped unless `overwrite` replaces them.
"""

from __future__ import annotations
