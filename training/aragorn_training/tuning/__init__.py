"""Tune the parameters of lexical systems and of quality re-ranking on judged topics."""
