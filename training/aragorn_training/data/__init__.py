"""Prepare training data: tables, word vectors, published data sets.

Functions that read files raise InputError if a file is missing, damaged or unsuitable; functions
that write files raise OutputError if a directory is not writable. Functions that write keep
complete files prepared from the same input and settings. Files prepared from other input or
settings are replaced if `overwrite` is true; otherwise OutputError is raised.
"""
