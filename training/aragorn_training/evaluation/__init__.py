"""Read qrels, evaluate runs, predicted term weights and tags, and test, tabulate and plot the
results."""
