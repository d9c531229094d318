"""Where the parts of a computation are computed: in this process, or by the machines of a cluster."""

from __future__ import annotations
