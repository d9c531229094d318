"""Systems, the stages that they are made of, and their execution."""

from __future__ import annotations
