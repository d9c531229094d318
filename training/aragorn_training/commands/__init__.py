"""Define the commands of `aragorn-training`: their options and what they do.

Functions import heavy libraries (torch, gensim, matplotlib), to keep --help fast.
"""
