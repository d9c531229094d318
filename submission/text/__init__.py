"""Normalise and tokenise texts.

Functions that load raise OSError if a file is unreadable, and ValueError if it is malformed.
"""
