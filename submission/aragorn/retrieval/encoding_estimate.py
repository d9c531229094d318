"""Estimate how long texts are encoded, and tell the thread that needs their vectors."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class EncodingEstimate:
    """Number of texts that a network is encoding, and the expected time of the last one."""

    network: str
    text_count: int
    end: float  # seconds, as of `time.monotonic`

    @property
    def remaining_seconds(self) -> float:
        return self.end - time.monotonic()

    def __str__(self) -> str:
        seconds = max(1, self.remaining_seconds)
        return f"{self.network}: encoding {self.text_count:,} texts without a vector, about {seconds:.0f} s"


Listener = Callable[[EncodingEstimate], object]
encoding_listener: ContextVar[Listener | None] = ContextVar("encoding_listener", default=None)
