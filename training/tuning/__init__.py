"""Tune parameters on judged topics."""
