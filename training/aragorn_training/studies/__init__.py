"""Compare training and indexing methods with published results; studies write tables, not
checkpoints.

A study is a module or package with the name of the study. It defines `Options`, a dataclass;
`run(options)`, which returns a table, a Result or tables by file name; and FILE, the name of its
CSV file, FIRST_COLUMNS, the first three columns, by which -o recognises a file that it replaces,
and DIGITS, its decimal places. If it has parts, KEY is the column that names them and
ORDER their order; the file keeps the rows of parts that a call does not compute.

All studies cache their results and raise InputError if data are missing or malformed,
CheckpointError if an encoder or a checkpoint is missing, TrainingError if a network does not learn,
and OutputError if a file cannot be written.
"""
