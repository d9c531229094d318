"""Read published data sets; files that are missing or malformed raise InputError."""
