"""Define what stages are made of: how to compute (`session`), what is searched (`collection`), and
what is asked (`retrieval`).

Loading a checkpoint may raise CheckpointError, reading documents InputError, and caching results
OutputError.
"""
