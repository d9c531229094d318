"""Sort and validate supplied rankings (runs and rerank.jsonl), and suggest how to match their ids
to those of the input."""

import logging
import re
from collections.abc import Callable, Collection

import numpy as np
import pandas as pd

from aragorn.errors import MAX_NAMES_LISTED, InputError, abbreviate, abbreviate_list
from aragorn.io.orders import Order
from aragorn.rankings import rank_by_score_stable

log = logging.getLogger(__name__)

NORMALISATIONS: dict[str, Callable[[str], str]] = {  # normalisations of ids, by description
    "without leading zeros": lambda qid: qid.lstrip("0") or "0",
    "without the part after the first `.`": lambda qid: qid.partition(".")[0],
    "without the prefix before the number": lambda qid: re.sub(r"^[^0-9]+(?=[0-9])", "", qid),
    "in lower case": str.lower,
}


def sort_ranking(ranking: pd.DataFrame, order: Order, source: object) -> pd.DataFrame:
    """Sort the documents of each topic of a supplied ranking by rank or score, and renumber the
    ranks.

    Args:
        ranking: Frame `qid docno rank score line` in file order. If the file lacks ranks or scores,
            that column is NaN and not used; if it lacks both, documents stay in file order.
            Remaining ties are in file order.
        order: Column to sort by; "auto" applies `orders.AUTO_ORDER`.
        source: File of the ranking, for messages.

    Returns:
        All columns except line; topics in order of first occurrence, ranks from 1.
    """
    has_ranks, has_scores = not ranking["rank"].isna().any(), not ranking["score"].isna().any()
    docno_positions = pd.factorize(ranking["docno"], sort=True)[0]
    sort_keys = {"topic": pd.factorize(ranking["qid"])[0]}
    if has_ranks and (order != "score" or not has_scores):
        sort_keys["rank"] = ranking["rank"].to_numpy(float)
    if has_scores:
        sort_keys["score"] = -ranking["score"].to_numpy(float)
    if has_ranks and has_scores:
        sort_keys["docno"] = -docno_positions
    positions = np.lexsort([np.arange(len(ranking)), *reversed(sort_keys.values())])
    ordered = ranking.iloc[positions]
    if has_ranks and has_scores and order == "auto":
        _raise_if_contradictory(ordered, source)
        with np.errstate(over="ignore"):  # as trec_eval, for which 1e40 and 2e40 are infinite
            is_single_equal = ordered.assign(
                score=ordered["score"].to_numpy(np.float32)
            ).duplicated(["qid", "score"])
        is_equal, is_ascending = (
            ordered.duplicated(["qid", "score"]),
            np.diff(docno_positions[positions], prepend=0) > 0,
        )
        for column, is_affected, rule in (
            (
                "ranks",
                ordered.duplicated(["qid", "rank"]),
                "by score, then docno descending (as trec_eval)",
            ),
            (
                "scores",
                is_equal & is_ascending,
                "by rank (trec_eval: by docno descending, as --order score)",
            ),
            (
                "32-bit scores",
                is_single_equal & ~is_equal & is_ascending,
                "by 64-bit scores (trec_eval: by docno descending)",
            ),
        ):
            if affected_count := ordered["qid"][is_affected].nunique():
                message = "%s: equal %s in %d of %d topics; sorted %s"
                log.warning(message, source, column, affected_count, ordered["qid"].nunique(), rule)
    ranks = ordered.groupby("qid", sort=False).cumcount().to_numpy() + 1
    return ordered.assign(rank=ranks).drop(columns="line").reset_index(drop=True)


def validate_supplied_ranking(
    ranking: pd.DataFrame, topics: pd.DataFrame, unknown_docnos: Collection[str], source: object
) -> pd.DataFrame:
    """Validate a sorted ranking `qid docno rank score` and return it as rankings in topic order.

    Documents too short for the collection are kept, since an earlier stage selected them. Topics
    without documents cause a warning. `unknown_docnos` are the docnos of the ranking that are not
    in the input.
    """
    qids = set(topics["qid"])
    for is_unknown, column, noun in (
        (~ranking["qid"].isin(qids), "qid", "topic"),
        (ranking["docno"].isin(unknown_docnos), "docno", "document"),
    ):
        unknown_ids = ranking[column][is_unknown]
        if len(unknown_ids):
            unknown_count, total_count = unknown_ids.nunique(), ranking[column].nunique()
            is_disjoint = column == "qid" and unknown_count == total_count
            hint = suggest_normalisation(sorted(set(unknown_ids)), qids) if is_disjoint else ""
            cause = f"{format_missing(unknown_count, total_count, noun)} in the input"
            raise InputError(
                f"{source}: {cause} (first: {abbreviate(unknown_ids.iloc[0])}); "
                f"use a ranking made from this version of the input{hint and '.'}{hint}"
            )
    duplicates = ranking[ranking.duplicated(["qid", "docno"])]
    if len(duplicates):
        qid, docno = duplicates["qid"].iloc[0], duplicates["docno"].iloc[0]
        raise InputError(
            f"{source}: duplicate document {abbreviate(docno)} in topic {abbreviate(qid)}; remove one"
        )
    missing_qids = topics["qid"][~topics["qid"].isin(set(ranking["qid"]))]
    if len(missing_qids):
        message = "%s: no documents for %d of %d topics (%s); their rankings are empty"
        log.warning(
            message,
            source,
            len(missing_qids),
            len(topics),
            abbreviate_list(missing_qids.tolist(), MAX_NAMES_LISTED),
        )
    return rank_by_score_stable(_fill_scores(ranking, source), topics)


def _fill_scores(ranking: pd.DataFrame, source: object) -> pd.DataFrame:
    """Replace all scores of a sorted ranking with n, n - 1, …, 1 per topic if a score of any topic
    is missing or increases."""
    if not (_find_score_increases(ranking).any() or ranking["score"].isna().any()):
        return ranking
    log.warning(
        "%s: scores missing or not in rank order; replaced with n, n - 1, …, 1 per topic", source
    )
    return ranking.assign(
        score=ranking.groupby("qid")["rank"].transform("size").to_numpy(float) - ranking["rank"] + 1
    )


def _find_score_increases(ranking: pd.DataFrame) -> pd.Series:
    """Return for each row whether its score is higher than that of the previous row of the same
    topic."""
    return ranking["qid"].eq(ranking["qid"].shift()) & ranking["score"].gt(ranking["score"].shift())


def _raise_if_contradictory(ranking: pd.DataFrame, source: object) -> None:
    increases = _find_score_increases(ranking)
    if not increases.any():
        return
    position = int(np.flatnonzero(increases)[0])
    previous, current = ranking.iloc[position - 1], ranking.iloc[position]
    topics = f"{ranking['qid'][increases].nunique()} of {ranking['qid'].nunique()} topics"
    raise InputError(
        f"{source}, line {current['line']}: ranks and scores disagree in {topics}; "
        f"first in topic {abbreviate(current['qid'])}: {abbreviate(current['docno'])} has "
        f"rank {current['rank']:.0f} and score {current['score']:g}, {abbreviate(previous['docno'])} (line {previous['line']}) "
        f"rank {previous['rank']:.0f} and score {previous['score']:g}; set --order rank or --order score"
    )


def suggest_normalisation(ids: Collection[str], other_ids: Collection[str]) -> str:
    """Return a hint that names the normalisation under which two disjoint id sets overlap; "" if
    there is none.

    Example: " 01 without leading zeros equals 1; rename the topics of one file."
    """
    for description, normalise in NORMALISATIONS.items():
        ids_by_normal_form = {normalise(other_id): other_id for other_id in other_ids}
        for identifier in ids:
            normal_form = normalise(identifier)
            if normal_form in ids_by_normal_form:
                example = (
                    identifier if normal_form != identifier else ids_by_normal_form[normal_form]
                )
                return f" {abbreviate(example)} {description} equals {abbreviate(normal_form)}; rename the topics of one file."
    return ""


def format_missing(count: int, total: int, noun: str) -> str:
    """Format a positive count of missing ids, e.g. "3 of 15 topics are not", to which the caller
    adds "in the input"."""
    if total == 1:
        return f"the only {noun} is not"
    if count == total:
        return f"none of the {total} {noun}s is"
    return f"{count} of {total} {noun}s {'is' if count == 1 else 'are'} not"
