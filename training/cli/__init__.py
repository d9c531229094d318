"""Subcommands of `python -m training`: arguments and handlers.

Handlers import heavy libraries (torch, gensim, matplotlib) themselves to keep --help fast.
"""
