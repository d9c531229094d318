"""Fuse rankings by a weighted sum of normalised scores, and re-rank documents by argument
quality."""
