"""Reproduce Augmented SBERT (Thakur et al. 2021) on its data sets."""
