"""Evaluate runs and predictions: measures, significance tests, overlaps, tables and plots."""
