"""Prepare training data: tables, word vectors, published data sets.

Functions that read raise InputError if files are missing, damaged or unsuitable; functions that write raise OutputError if a
directory is not writable. Complete files are skipped; those prepared from other input raise OutputError unless `overwrite` is
true, which replaces them.
"""
