"""Prepare tagged documents for TARGER, pre-train and measure taggers."""

from __future__ import annotations
