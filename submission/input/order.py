"""In which order a run lists a topic's documents: one rule, whoever reads the run.

trec_eval looks at the scores alone, Touché's script at the ranks alone, other evaluators at the order of the lines. Where these
agree, so do we all; where they do not, no figure may depend on who is asked.
"""

from __future__ import annotations

from typing import Literal, get_args

Order = Literal["auto", "rank", "score"]
ORDERS: tuple[Order, ...] = get_args(Order)
RULE = (
    "by rank, equal ranks by score, equal scores too by docno descending, as trec_eval does; "
    "ranks and scores that contradict each other are refused unless `--order rank` or `--order score` says which to believe"
)
