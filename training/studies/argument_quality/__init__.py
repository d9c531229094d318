"""Argument quality: networks trained on lists, by the protocol of the published work; its use for re-ranking."""

from __future__ import annotations
