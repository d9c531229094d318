"""Store artifacts, checkpoints, caches; a failed write raises OutputError and changes nothing."""
