"""Evaluate a network on the validation conclusions: over all premises of the collection, and over the thesis' 105 each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.util import cos_sim

from submission.text.tokenisers import PieceTokeniser
from training.augmented.models import Model, scores
from training.data.tables import Queries, load_validation
from training.fitting.validation import validate

AT_ONCE = 8  # premises encoded together: few enough for a processor's cache
MEASURES = {"recall@100": ("recall@k", 100), "MRR@10": ("mrr@k", 10), "nDCG@10": ("ndcg@k", 10)}  # where the library has them


class Dev:
    """The validation conclusions, each with five premises of its own."""

    def __init__(self, train: pd.DataFrame, validation: pd.DataFrame, work: Path, tokeniser: PieceTokeniser) -> None:
        """Of the arguments that train and those that validate, as `arguments` gives them from this working directory."""
        self._conclusions = validation.groupby("normalised_conclusion", sort=False)["conclusion"].first().tolist()
        own = validation.groupby("normalised_conclusion", sort=False)["docno"].agg(set).tolist()
        self._premises = validation["premise"].to_numpy()
        self._queries = load_validation(work, "pieces", tokeniser)
        collection = pd.concat([train, validation])
        self._collection = dict(zip(collection["docno"], collection["premise"], strict=True))
        self._evaluator = InformationRetrievalEvaluator(
            dict(zip(map(str, range(len(own))), self._conclusions, strict=True)),
            self._collection,
            dict(zip(map(str, range(len(own))), own, strict=True)),
            mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[100], map_at_k=[100],
            batch_size=AT_ONCE, write_csv=False, score_functions={"cosine": cos_sim},
        )  # fmt: skip

    def found(self, model: SentenceTransformer, bfloat16: bool) -> dict[str, float]:
        """Recall at 100, MRR and nDCG at 10, in percent, in the whole collection, whose premises may be encoded in bfloat16."""
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16):
            texts = list(self._collection.values())
            vectors = model.encode(texts, batch_size=AT_ONCE, convert_to_tensor=True, show_progress_bar=False)
        values: Any = self._evaluator.compute_all_metrics(model, corpus_embeddings=vectors.float())["cosine"]
        return {name: 100 * float(values[measure][k]) for name, (measure, k) in MEASURES.items()}

    def validated(self, model: Model, bfloat16: bool) -> float:
        """MAP at 20, in percent, over the thesis' 105 premises of each conclusion."""

        def score(queries: Queries, chosen: np.ndarray) -> np.ndarray:
            candidates = queries.candidates[chosen]
            first = np.repeat(np.array(self._conclusions, dtype=object)[chosen], candidates.shape[1])
            pairs = pd.DataFrame({"first": first, "second": self._premises[candidates.ravel()]})
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16):
                return scores(model, pairs).reshape(candidates.shape)

        return validate(self._queries, np.arange(len(self._conclusions)), score)[0]["MAP@20"]
