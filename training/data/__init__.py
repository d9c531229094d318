"""Prepare training data: tables, word vectors, published data sets.

Functions that read files raise InputError if these are missing, damaged or unsuitable; functions that write files raise
OutputError if a directory is not writable. Complete files are kept. If they were prepared from other input, they are replaced
if `overwrite` is true; otherwise OutputError is raised.
"""
