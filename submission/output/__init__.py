"""Output: TREC runs, their directory and ir-metadata. Raises OutputError if a file cannot be written."""
