"""Read topics, documents and runs; without imports, so that `--help` is fast."""

from typing import Literal, get_args

Order = Literal["auto", "rank", "score"]
ORDERS: tuple[Order, ...] = get_args(Order)
AUTO_ORDER = (
    "by rank, then score, then docno descending; rankings whose ranks and scores "
    "disagree are rejected without `--order rank` or `--order score`"
)
