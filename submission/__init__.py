"""Rank the topics of an input and write TREC runs; the package in the container image."""

__version__ = "1.1.0"
