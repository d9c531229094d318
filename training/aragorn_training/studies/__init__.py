"""Compare training and indexing methods with published results; studies write tables, not
checkpoints.

All studies cache their results and raise InputError if data are missing or malformed,
CheckpointError if an encoder or a checkpoint is missing, TrainingError if a network does not learn,
and OutputError if a file cannot be written.
"""
