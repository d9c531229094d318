"""Texts: how they are normalised, and how they become ids."""

from __future__ import annotations
