"""Store artifacts, checkpoints and caches.

Functions that write raise OutputError if writing fails; the previous content remains.
"""
