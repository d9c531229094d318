"""Open the retrieval of a command."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from aragorn.cache import open_cache
from aragorn.engine import FLOAT32, choose_device, choose_precision
from aragorn.io.collection import Fields
from aragorn.io.dataset import Dataset
from aragorn.io.qrels import read_qrels
from aragorn.pipeline.retrieval import Retrieval
from aragorn.pipeline.session import CheckpointStore, Collection, Session
from aragorn.systems.enrichment import Enrichment
from aragorn_training.evaluation.overlap import check_overlap


class DatasetRetrieval(Retrieval):
    """A retrieval for the topics of a dataset, in its documents."""

    def __init__(self, dataset: Dataset, session: Session) -> None:
        super().__init__(dataset, Collection(dataset, session))
        self.dataset = dataset

    def read_qrels(self, files: Mapping[str, Path]) -> dict[str, pd.DataFrame]:
        """Read the judgments of the documents by name, and log how many judged topics the input
        has; raise InputError if there are none."""
        docnos = self.collection.documents.read_all_docnos()
        qrels = {name: read_qrels(file, docnos) for name, file in files.items()}
        for name, frame in qrels.items():
            check_overlap(self.dataset, frame, name)
        return qrels


def load_input_fields(taggers: Iterable[str], retrieval: Retrieval) -> dict[str, Fields]:
    """Load the fields that taggers read, by name; call it first, so that damage fails early."""
    checkpoints = retrieval.session.checkpoints
    return {
        name: Enrichment(name).load_checkpoint(checkpoints).network.input_fields for name in taggers
    }


@contextmanager
def open_retrieval(options: Any, output_dir: Path) -> Iterator[DatasetRetrieval]:
    """Open a retrieval with a command's options `inputs`, `checkpoint_dir`, `device`, `work_dir`
    and, if it has it, `precision`; for `work_dir` None, the cache is a temporary directory, made in
    `output_dir` if the system provides none."""
    device = choose_device(options.device)
    precision = choose_precision(getattr(options, "precision", FLOAT32), device)
    checkpoints = CheckpointStore(options.checkpoint_dir, precision)
    with open_cache(options.work_dir, output_dir) as cache:
        yield DatasetRetrieval(Dataset(*options.inputs), Session(checkpoints, device, cache))
