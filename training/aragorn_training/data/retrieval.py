"""Open the retrieval of a command."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aragorn.cache import open_cache
from aragorn.engine import FLOAT32, choose_device, choose_precision
from aragorn.io.dataset import Dataset
from aragorn.pipeline.retrieval import Retrieval
from aragorn.pipeline.session import CheckpointStore, Collection, Session
from aragorn.systems.enrichment import Enrichment
from aragorn.text.index_terms import Fields


class DatasetRetrieval(Retrieval):
    """A retrieval for the topics of a dataset, in its documents."""

    def __init__(self, dataset: Dataset, session: Session) -> None:
        super().__init__(dataset, Collection(dataset, session))
        self.dataset = dataset


def load_input_fields(taggers: Iterable[str], retrieval: Retrieval) -> dict[str, Fields]:
    """Load the fields that taggers read, by name; call it first, to fail early if one is damaged."""
    checkpoints = retrieval.session.checkpoints
    return {
        name: Enrichment(name).load_checkpoint(checkpoints).network.input_fields for name in taggers
    }


@contextmanager
def open_retrieval(
    options: Any, cache_dir: Path | None, output_dir: Path
) -> Iterator[DatasetRetrieval]:
    """Open a retrieval with a command's options `inputs`, `checkpoint_dir`, `device` and, if it has
    them, `input_run`, `order` and `precision`; for `cache_dir` None, the cache is a temporary
    directory, made in `output_dir` if the system provides none."""
    dataset = Dataset(
        *options.inputs,
        input_run=getattr(options, "input_run", None),
        order=getattr(options, "order", "auto"),
    )
    device = choose_device(options.device)
    precision = choose_precision(getattr(options, "precision", FLOAT32), device)
    checkpoints = CheckpointStore(options.checkpoint_dir, precision)
    with open_cache(cache_dir, output_dir) as cache:
        yield DatasetRetrieval(dataset, Session(checkpoints, device, cache))
