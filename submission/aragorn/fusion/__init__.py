"""Fuse rankings by min-max regression or by a weighted sum of z-scores, and re-rank documents by
argument quality."""
