"""Orders of a topic's documents in runs.

trec_eval uses only scores, Touché's script only ranks, other evaluators the order of lines. Rankings whose ranks and scores
disagree are rejected, so that results do not depend on the evaluator.
"""

from __future__ import annotations

from typing import Literal, get_args

Order = Literal["auto", "rank", "score"]
ORDERS: tuple[Order, ...] = get_args(Order)
RULE = (
    "by rank, then score, then docno descending (as trec_eval); rankings whose ranks and scores disagree are rejected "
    "unless `--order rank` or `--order score` selects one"
)
