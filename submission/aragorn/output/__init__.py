"""Write TREC runs and ir-metadata; raise OutputError if a file cannot be written."""
