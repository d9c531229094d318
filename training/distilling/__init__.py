"""Distillation: titles of debates with another system's scores."""

from __future__ import annotations
