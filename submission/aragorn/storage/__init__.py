"""Store artifacts, checkpoints and caches; a failed write raises OutputError and changes nothing."""
