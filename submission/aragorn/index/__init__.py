"""Inverted indexes and their weighting; vectors and their search."""
