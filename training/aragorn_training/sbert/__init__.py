"""Train sentence-transformers teachers and students (Augmented SBERT, Thakur et al. 2021).

Functions raise InputError if `prepare pairs` has not been run, CheckpointError if an encoder is
missing, and OutputError if a file cannot be written.
"""
