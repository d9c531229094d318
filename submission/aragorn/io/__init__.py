"""Read topics, documents and runs; without imports, so that `--help` is fast."""

from typing import Literal

Order = Literal["auto", "rank", "score"]
AUTO_ORDER = (
    "by rank, then score, then docno descending; rankings whose ranks and scores "
    "disagree are rejected without `--order rank` or `--order score`"
)
