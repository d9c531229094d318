"""Fusion of rankings: regression, linear fusion and quality re-ranking."""
