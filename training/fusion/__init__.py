"""Fit and evaluate fusions: learned fusion on judgments, ensemble regression on validation pairs."""
