"""Retrieval systems, and the stages that they consist of."""
