"""Read what the checkpoints of systems say about their training."""

from collections.abc import Collection, Iterable
from pathlib import Path

import pandas as pd

from aragorn.pipeline.component import iter_components
from aragorn.storage.checkpoint_directory import METRICS, PROVENANCE, read_json
from aragorn.systems.catalogue import SYSTEMS

# validation measures of the training tasks, in percent; of a log that has several, the first
MEASURES = ("MAP@20", "R²", "F1", "Spearman", "both")


def list_checkpoints(system: str) -> list[str]:
    """Return the names of a system's checkpoints; none if the catalogue lacks the system."""
    components = iter_components(SYSTEMS[system].stage) if system in SYSTEMS else ()
    return [component.checkpoint for component in components if component.checkpoint]


def is_fitted(system: str, qrels_hashes: Collection[str], directory: Path) -> bool:
    """Return whether a checkpoint of a system was fitted or tuned to qrels with these hashes."""
    files = [directory / name / PROVENANCE for name in list_checkpoints(system)]
    texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    return any(qrels_hash in text for text in texts for qrels_hash in qrels_hashes)


def read_learning_curves(systems: Iterable[str], directory: Path) -> pd.DataFrame:
    """Read the training logs of the systems' networks as rows `network epoch share measure value
    loss`, where `share` is that of all epochs."""
    tables = []
    for name in dict.fromkeys(name for system in systems for name in list_checkpoints(system)):
        file = directory / name / METRICS
        log = pd.DataFrame((read_json(file) if file.is_file() else {}).get("log", []))
        if len(log):
            measure = next(measure for measure in MEASURES if measure in log)
            share = log["epoch"] / log["epoch"].iloc[-1]
            new = {"network": name, "share": share, "measure": measure, "value": log[measure]}
            tables.append(log[["epoch", "loss"]].assign(**new))
    return pd.concat(tables) if tables else pd.DataFrame()
