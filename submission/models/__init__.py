"""Networks, and the layers that they share."""

from __future__ import annotations
