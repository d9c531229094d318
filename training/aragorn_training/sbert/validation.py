"""Validate a network on validation conclusions: all premises, and MAP of the candidates of each."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.util import cos_sim

from aragorn.text.tokenisers import WordPieceTokeniser
from aragorn_training.data.candidates import CandidateSettings
from aragorn_training.data.pair_tables import ValidationQueries, load_validation_queries
from aragorn_training.fitting.validation import validate_candidates
from aragorn_training.sbert.networks import Network, score_pairs

BATCH_SIZE = 8  # premises per batch; small batches fit the CPU cache
# sentence-transformers' metric and cut-off by result name
LIBRARY_METRICS = {
    "recall@100": ("recall@k", 100),
    "MRR@10": ("mrr@k", 10),
    "nDCG@10": ("ndcg@k", 10),
}


class ConclusionValidator:
    """Validator on the validation conclusions, which have five relevant premises each."""

    def __init__(
        self,
        train: pd.DataFrame,
        validation: pd.DataFrame,
        work_dir: Path,
        tokeniser: WordPieceTokeniser,
        settings: CandidateSettings,
    ) -> None:
        """Build the validator from arguments that `load_arguments` has loaded."""
        by_conclusion = validation.groupby("normalised_conclusion", sort=False)
        self._conclusions = by_conclusion["conclusion"].first().tolist()
        relevant_docnos = by_conclusion["docno"].agg(set).tolist()
        self._queries = load_validation_queries(work_dir, "pieces", tokeniser, settings)
        collection = pd.concat([train, validation])
        self._collection = dict(zip(collection["docno"], collection["premise"], strict=True))
        self._premises = np.array(
            [self._collection[docno] for docno in self._queries.docnos], dtype=object
        )
        qids = [str(index) for index in range(len(relevant_docnos))]
        self._evaluator = InformationRetrievalEvaluator(
            dict(zip(qids, self._conclusions, strict=True)),
            self._collection,
            dict(zip(qids, relevant_docnos, strict=True)),
            mrr_at_k=[10],
            ndcg_at_k=[10],
            accuracy_at_k=[1],
            precision_recall_at_k=[100],
            map_at_k=[100],
            batch_size=BATCH_SIZE,
            write_csv=False,
            score_functions={"cosine": cos_sim},
        )

    def measure_retrieval(self, model: SentenceTransformer, bfloat16: bool) -> dict[str, float]:
        """Return recall@100, MRR@10 and nDCG@10 (percent) over all premises."""
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16):
            texts = list(self._collection.values())
            vectors = model.encode(
                texts, batch_size=BATCH_SIZE, convert_to_tensor=True, show_progress_bar=False
            )
        metrics: Any = self._evaluator.compute_all_metrics(model, corpus_embeddings=vectors.float())
        return {
            name: 100 * float(metrics["cosine"][measure][k])
            for name, (measure, k) in LIBRARY_METRICS.items()
        }

    def measure_map_at_20(self, model: Network, bfloat16: bool) -> float:
        """Return MAP@20 (percent) over each conclusion's candidates."""

        def score(queries: ValidationQueries, rows: np.ndarray) -> np.ndarray:
            candidates = queries.candidates[rows]
            first = np.repeat(np.array(self._conclusions, dtype=object)[rows], candidates.shape[1])
            pairs = pd.DataFrame({"first": first, "second": self._premises[candidates.ravel()]})
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bfloat16):
                return score_pairs(model, pairs).reshape(candidates.shape)

        rows = np.arange(len(self._conclusions))
        return validate_candidates(self._queries, rows, score)[0]["MAP@20"]
