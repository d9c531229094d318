"""Normalise and tokenise texts; a malformed file raises OSError or ValueError."""
