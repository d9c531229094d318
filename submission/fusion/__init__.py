"""Fuse rankings by regression or linearly, and re-rank documents by argument quality."""
