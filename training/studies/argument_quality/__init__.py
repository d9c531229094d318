"""Evaluate listwise argument-quality networks by the protocol of Favreau et al. (2022)."""

from __future__ import annotations
