"""Explain the score of a pair by the network's contributions and by the effect of each token."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import torch

from aragorn.explanation import Explanation, Row
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.inference.pair_scoring import TokenisedPairs, score_pairs
from aragorn.models.network import PaddedTexts, pad


@torch.inference_mode()
def explain_pair(
    checkpoint: RankerCheckpoint, query: list[int], document: list[int], field: str, device: str
) -> Explanation:
    """Explain a network's score for a query and the document field `field`, both as token ids."""
    ranker = checkpoint.move_network(device)
    query_tokens = checkpoint.tokeniser.to_tokens(query)
    document_tokens = checkpoint.tokeniser.to_tokens(document)
    explanation = ranker.explain(
        *(tensor.to(device) for text in (query, document) for tensor in pad([text]))
    )
    rows = [_add_tokens(row, query_tokens, document_tokens) for row in explanation.contributions]
    occlusions = []
    if ranker.uses_occlusion:
        occlusions = _occlude_tokens(checkpoint, query, document, explanation.score, device)
    return replace(
        explanation,
        contributions=rows,
        model_inputs={
            "query as tokenised": " ".join(query_tokens),
            f"{field} as tokenised": " ".join(document_tokens),
        },
        breakdowns=_sum_by_feature_and_term(rows, query_tokens),
        occlusions=occlusions,
    )


def _add_tokens(row: Row, query_tokens: list[str], document_tokens: list[str]) -> Row:
    """Begin the note of a contribution with the tokens that it comes from."""
    query = "" if row.query_position is None else query_tokens[row.query_position]
    document = " ".join(
        document_tokens[position]
        for position in row.document_positions
        if position < len(document_tokens)
    )
    tokens = " ← ".join(text for text in (query, document) if text)
    return replace(row, note="  ".join(text for text in (tokens, row.note) if text))


def _sum_by_feature_and_term(rows: list[Row], query_tokens: list[str]) -> dict[str, list[Row]]:
    """Sum contributions by label and by query term; return {} if all labels differ."""
    by_feature: dict[str, float] = defaultdict(float)
    by_query_term: dict[int, float] = defaultdict(float)
    for row in rows:
        by_feature[row.label] += row.value
        if row.query_position is not None:
            by_query_term[row.query_position] += row.value
    if len(by_feature) == len(rows):
        return {}
    terms = by_query_term.items()
    return {
        "by feature": [Row(value, label) for label, value in by_feature.items()],
        "by query term": [Row(value, query_tokens[position]) for position, value in terms],
    }


def _occlude_tokens(
    checkpoint: RankerCheckpoint, query: list[int], document: list[int], score: float, device: str
) -> list[Row]:
    """Compute the change of the score if each document token in turn is omitted."""
    count = len(document)
    variants = [document[:position] + document[position + 1 :] for position in range(count)]
    pairs = TokenisedPairs(
        PaddedTexts.from_ids([query]),
        PaddedTexts.from_ids(variants),
        np.zeros(count, dtype=int),
        np.arange(count),
    )
    scores = score_pairs(checkpoint.network, pairs, device).tolist()
    tokens = checkpoint.tokeniser.to_tokens(document)
    return [
        Row(new_score - score, token, f"position {position}")
        for position, (new_score, token) in enumerate(zip(scores, tokens, strict=True), 1)
    ]
