"""Rank documents for the topics of an input and write TREC runs; the only project package in the
container image."""

__version__ = "1.1.0"
