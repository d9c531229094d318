"""Normalise and tokenise texts.

Functions that load a file raise OSError if the file is unreadable, and ValueError if it is
malformed.
"""
