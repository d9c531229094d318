"""Define the subcommands of `aragorn-training`: arguments and handlers.

Handlers import heavy libraries (torch, gensim, matplotlib) locally, to keep --help fast.
"""
