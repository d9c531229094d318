"""Define reserved token ids and the input units of networks."""

from __future__ import annotations

from typing import Literal

PADDING_ID, UNKNOWN_ID = 0, 1
FIRST = 2  # id of a vocabulary's first term

InputUnit = Literal["words", "pieces"]
