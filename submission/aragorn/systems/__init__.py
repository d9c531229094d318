"""Retrieval systems, the stages that they consist of, and the indexes of these."""
