"""Define session (device, checkpoints and cache), collection (documents and their indexes),
retrieval (topics and rankings), and the base classes of components and stages.

Loading a checkpoint may raise CheckpointError, reading documents InputError, and caching results
OutputError.
"""
