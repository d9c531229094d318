"""Execute functions in this process or on a Ray cluster."""
