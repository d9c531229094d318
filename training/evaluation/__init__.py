"""Read qrels and evaluate runs and predictions: measures, significance tests, overlaps, tables and plots."""
