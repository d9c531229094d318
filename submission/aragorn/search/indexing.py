"""Run the subcommand `index`: build everything that systems need of a collection before they know
the topics."""

import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aragorn.cache import open_cache
from aragorn.engine.device import choose_device, choose_precision
from aragorn.engine.factory import open_chosen_engine
from aragorn.progress import suppress_info
from aragorn.search.corpus import Corpus
from aragorn.systems.catalogue import PRIMARY_SYSTEM, get_system
from aragorn.systems.execution import CheckpointStore, Component, Execution, iter_components
from aragorn.verbs import IndexOptions

log = logging.getLogger(__name__)

# documents by which time and space are estimated
SAMPLE_SIZE = 256
WARM_UP_SIZE = 4


def index(options: IndexOptions) -> None:
    """Build the indexes of the named systems (default: the primary system) in the cache
    directory."""
    with open_chosen_engine(options) as engine:
        device = choose_device(options.device, engine)
        checkpoints = CheckpointStore(
            options.checkpoint_dir, choose_precision(options.precision, device)
        )
        stages = [get_system(name).stage for name in options.systems or [PRIMARY_SYSTEM]]
        components = list(
            dict.fromkeys(component for stage in stages for component in iter_components(stage))
        )
        with open_cache(options.cache_dir, Path()) as cache:
            execution = Execution(
                Corpus.from_paths(*options.inputs), checkpoints, device, cache, engine
            )
            build_indexes(components, execution)
    log.info(
        "index of %d documents in %s", len(execution.documents.searchable_docnos), options.cache_dir
    )


def build_indexes(components: Sequence[Component], execution: Execution) -> None:
    """Estimate the time and space that the indexes of components need, then build those that are
    not in the cache."""
    document_count = len(execution.documents.searchable_docnos)
    seconds, size = _estimate(components, execution)
    free = shutil.disk_usage(execution.cache.path).free
    message = "indexing %d documents: about %.0f s and %.0f MB (%.0f MB free), excluding vectors that are already cached"
    log.info(message, document_count, seconds, size / 1e6, free / 1e6)
    for component in components:
        component.build_index(execution)


def _estimate(components: Sequence[Component], execution: Execution) -> tuple[float, float]:
    """Estimate the seconds and bytes that the missing indexes need, from those of a sample of all
    documents."""
    docnos = execution.documents.searchable_docnos
    rows = np.linspace(0, len(docnos) - 1, min(SAMPLE_SIZE, len(docnos)), dtype=int)
    sample = execution.documents.read_texts([docnos[row] for row in np.unique(rows)])
    parts = [(component, component.select_unindexed(execution, sample)) for component in components]
    for limit in (WARM_UP_SIZE, len(sample)):  # the first loads networks and libraries
        with open_cache(None, Path()) as cache, suppress_info():
            start = time.monotonic()
            for component, documents in parts:
                if len(documents):
                    corpus = Corpus.from_frame(documents[:limit])
                    component.build_index(
                        Execution(corpus, execution.checkpoints, execution.device, cache)
                    )
            seconds = time.monotonic() - start
            size = sum(file.stat().st_size for file in cache.path.rglob("*") if file.is_file())
    scale = len(docnos) / len(sample)
    return scale * seconds, scale * size
