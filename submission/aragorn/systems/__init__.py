"""Retrieval systems, their stages, and their execution.

Loading a checkpoint may raise CheckpointError, reading documents InputError, and caching results
OutputError.
"""
