"""Scoring of topic-premise pairs with a network, and re-ranking by these scores."""

import hashlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from aragorn.explanation import Explanation, Row
from aragorn.inference import checkpoint, pair_scoring
from aragorn.inference.checkpoint import RankerCheckpoint, load_checkpoint
from aragorn.inference.pair_scoring import TokenisedPairs, score_documents, score_pairs
from aragorn.models.padding import PaddedTexts, pad
from aragorn.systems.execution import CheckpointStore, Execution, Stage
from aragorn.text import normalisation, tokenisers
from aragorn.versions import describe_versions


class NetworkStage(Stage):
    """A stage that scores topic-premise pairs with a network."""

    version = 1
    sources: ClassVar[tuple[ModuleType, ...]] = (
        normalisation,
        tokenisers,
        checkpoint,
        pair_scoring,
    )
    libraries = ("numpy", "pandas", "torch", "tokenizers")
    checkpoint: str

    def get_fingerprint(self, checkpoints: CheckpointStore) -> str:
        return checkpoints.get_fingerprint(self.checkpoint)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> RankerCheckpoint:
        return checkpoints.load_network(self.checkpoint, load_checkpoint)

    def get_key_parts(self, execution: Execution) -> list[str]:
        """Return the checkpoint's fingerprint, the version of its network, and the device and
        precision."""
        directory = execution.checkpoints.directory / self.checkpoint
        network_class = RankerCheckpoint.read_network_class(directory)
        return [
            self.get_fingerprint(execution.checkpoints),
            describe_versions(network_class),
            execution.device_and_precision,
        ]

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs with the network; completed shards are cached."""
        pairs_hash = hashlib.sha256(
            "\n".join(pairs["qid"] + " " + pairs["docno"]).encode()
        ).hexdigest()
        key_parts = [*self.get_key_parts(execution), execution.input.fingerprint, pairs_hash]
        parts = execution.get_pair_parts(
            f"scores-{self.checkpoint}", self.describe_sources(), *key_parts
        )
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return score_documents(
            pairs, execution.tokens, checkpoint, execution.device, parts, execution.engine
        )

    def explain(self, execution: Execution, qid: str, docno: str) -> Explanation:
        """Break the score down into the network's contributions, e.g. by kernel, query term or
        latent term."""
        checkpoint = self.load_checkpoint(execution.checkpoints)
        field, ids = self.get_model_input(execution, docno)
        [query] = execution.topics["query"]
        query_ids = checkpoint.tokeniser.encode_query(query)
        return explain_pair(checkpoint, query_ids, ids, field, execution.device)

    def get_model_input(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the name and token ids of the document field that the network reads."""
        [premise] = execution.documents.read_texts({docno})["premise"]
        return "premise", self.load_checkpoint(execution.checkpoints).tokeniser.encode_premise(
            premise
        )


@dataclass(frozen=True)
class RerankStage(NetworkStage):
    """Re-ranking of another stage's documents with a network."""

    version = 1
    first_stage: Stage
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, ...]:
        return (self.first_stage,)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank all documents of the first stage by the network's scores."""
        return self.rank_pairs(execution, execution.get_ranking(self.first_stage)[["qid", "docno"]])

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": get_name(self.first_stage)}


@torch.inference_mode()
def explain_pair(
    checkpoint: RankerCheckpoint,
    query: list[int],
    document: list[int],
    field: str,
    device: str,
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
    checkpoint: RankerCheckpoint,
    query: list[int],
    document: list[int],
    score: float,
    device: str,
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
