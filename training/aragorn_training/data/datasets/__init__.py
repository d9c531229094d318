"""Read published data sets; raise InputError if files are missing or malformed."""
