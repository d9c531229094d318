"""Define the commands of `aragorn-training`: their options and functions.

Functions import heavy libraries (torch, gensim, matplotlib), to keep --help fast.
"""
