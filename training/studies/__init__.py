"""Studies: experiments that measure ways of training and write tables, but no checkpoint."""

from __future__ import annotations
