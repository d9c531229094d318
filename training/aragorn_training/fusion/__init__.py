"""Fit and evaluate fusions: learned fusions on judgments, and ensembles on validation pairs."""
