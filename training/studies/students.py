"""Compare Augmented SBERT students on args.me: three losses, each on gold, silver and gold+silver pairs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from training.experiment import run_experiment
from training.fitting.recipe import Recipe
from training.sbert.networks import Loss
from training.sbert.students import BOTH, GOLD, SILVER, TEACHER, UNTRAINED, PairSettings, StudentExperiment, Variant

LOSSES: tuple[Loss, ...] = ("cosine", "cosent", "multiple_negatives")
NETWORKS = (UNTRAINED, TEACHER, *(Variant(loss, pairs) for pairs in (GOLD, SILVER, BOTH) for loss in LOSSES))


def evaluate_students(work_dir: Path, recipe: Recipe, pairs: PairSettings, device: torch.device) -> pd.DataFrame:
    """Train and evaluate all networks on the pairs that `prepare pairs` has written into `work_dir`.

    Returns:
        One row per network, in percent: MAP@20 over 105 candidates; recall, MRR and nDCG over all premises.
    """
    results = run_experiment(StudentExperiment(work_dir, recipe, pairs, device), NETWORKS, work_dir)
    return pd.DataFrame(
        {
            "loss": network.loss or "", "training_pairs": network.pairs, "n_pairs": result.n_pairs,
            "MAP@20": result.map_at_20, **result.retrieval, "seconds": result.seconds,
        }
        for network, result in results.items()
    )  # fmt: skip
